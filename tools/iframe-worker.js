// The search of a site that is read from a folder. Browsers start no worker from a file; this one runs in a frame of the
// page. MkDocs Material recognises it by the name of the class.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<body></body>"
      this.window = new Promise(started => {
        frame.onload = () => {
          const own = frame.contentWindow
          const load = address => new Promise((loaded, failed) => {
            const script = own.document.createElement("script")
            Object.assign(script, { src: address, onload: () => loaded(own), onerror: failed })
            own.document.body.append(script)
          })
          own.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          own.importScripts = async (...addresses) => { for (const address of addresses) await load(address) }
          started(load(url))
        }
      })
      document.body.append(frame)
    }

    postMessage(data) {
      this.window.then(own => own.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
