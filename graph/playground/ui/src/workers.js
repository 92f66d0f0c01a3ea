// The editors' workers travel inside the page, as text. Each is started from a blob: address, so that one file is
// all there is to serve.
const WORKERS = { json: 'worker-json', graphql: 'worker-graphql' };

globalThis.MonacoEnvironment = {
  getWorker(_id, label) {
    const source = document.getElementById(WORKERS[label] ?? 'worker-editor').textContent;
    const address = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
    const worker = new Worker(address, { name: label });
    // The worker has fetched its script once it says anything.
    worker.addEventListener('message', () => URL.revokeObjectURL(address), { once: true });
    return worker;
  },
};
