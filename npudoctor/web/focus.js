// The terminal takes keys as soon as it is there, without a click.
const waiting = new MutationObserver(() => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys) {
    keys.focus();
    waiting.disconnect();
  }
});
waiting.observe(document, { childList: true, subtree: true });
