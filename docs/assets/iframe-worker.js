// Browsers refuse web workers on pages opened straight from disk (file://). The search runs in a worker,
// so there, and only there, it runs in a hidden frame instead. No network is involved.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script>postMessage = data => parent.postMessage(data, "*")<\/script><script src="${url}"><\/script>`
      this.frame.onload = () => {
        const send = data => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
        this.waiting.forEach(send)
        this.postMessage = send
      }
      window.addEventListener("message", event => {
        if (event.source === this.frame.contentWindow)
          this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      document.body.append(this.frame)
    }
    postMessage(data) { this.waiting.push(data) }
    terminate() { this.frame.remove() }
  }
}
