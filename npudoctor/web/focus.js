// The terminal takes keys as soon as its session answers, without a click; a key before that would be lost.
const waiting = new MutationObserver(() => {
  const keys = document.querySelector(".-first-byte .xterm-helper-textarea");
  if (keys) {
    waiting.disconnect();
    keys.focus();
  }
});
waiting.observe(document, { attributeFilter: ["class"], childList: true, subtree: true });
