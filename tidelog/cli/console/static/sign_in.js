"use strict";
// Signs a user in. The cookie that the console sets cannot be read by scripts.
// The button is disabled until this script handles the form: the browser alone cannot send what the console accepts.

window.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("sign-in");
  const problem = document.getElementById("problem");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    const values = new FormData(form);
    try {
      const response = await fetch("/sign-in", {
        method: "POST", credentials: "same-origin", headers: { "Content-Type": "application/json" },
        body: JSON.stringify(Object.fromEntries(values)),
      });
      if (response.ok) { window.location.reload(); return; }
      problem.textContent = (await response.json()).error;
    } catch (error) {
      problem.textContent = error.message;
    }
  });
  form.querySelector("button").disabled = false;
});
