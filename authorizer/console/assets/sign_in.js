// For a token, where the listener knows the caller by nothing else.

import { html, useRef } from "./htm-preact.js";
import { useToken } from "./api.js";

export function SignIn({ message, onGiven }) {
  const field = useRef(null);
  const given = (event) => {
    event.preventDefault();
    useToken(field.current.value.trim());
    onGiven();
  };
  return html`<form class="sign-in" onSubmit=${given}>
    <p role="alert">${message}</p>
    <label>Token <input type="password" ref=${field} autocomplete="off" /></label>
    <button>Ask with it</button>
  </form>`;
}
