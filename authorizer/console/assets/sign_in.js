// Form for a bearer token, if the listener requires one.

import { html, useRef } from "./htm-preact.js";
import { useToken } from "./api.js";

export function SignIn({ message, onToken }) {
  const field = useRef(null);
  const submitted = (event) => {
    event.preventDefault();
    useToken(field.current.value.trim());
    onToken();
  };
  return html`<form class="sign-in" onSubmit=${submitted}>
    <p role="alert">${message}</p>
    <label>Token <input type="password" ref=${field} autocomplete="off" /></label>
    <button>Use token</button>
  </form>`;
}
