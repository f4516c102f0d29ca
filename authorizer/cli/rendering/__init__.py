"""Tables, text and colours of the commands."""
