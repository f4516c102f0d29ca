"""Configuration: the keys, their values, and what these set up. `load` reads them, `keys` lists them."""
