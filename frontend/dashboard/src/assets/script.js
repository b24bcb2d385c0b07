"use strict";
// Every page works without this script.

// Buttons that copy the text of another element.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    const text = source.value ?? source.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      source.focus();
      source.select?.();
      button.textContent = "Press Ctrl+C";
    }
  });
}

// Parts of the page that update themselves: the script fetches each again until it has no `data-refresh`.
for (const part of document.querySelectorAll("[data-refresh]")) {
  const again = async () => {
    if (document.hidden) {
      setTimeout(again, 2000);
      return;
    }
    try {
      const answer = await fetch(part.dataset.refresh, { credentials: "same-origin" });
      if (answer.ok && !answer.redirected) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById(part.id);
        if (fresh) {
          part.replaceChildren(...fresh.childNodes);
          if (!fresh.hasAttribute("data-refresh")) return;
        }
      }
    } catch {
      // The network is not available; the next round tries again.
    }
    setTimeout(again, 2000);
  };
  setTimeout(again, 2000);
}
