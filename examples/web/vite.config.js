import { defineConfig } from 'vite';

// Pages of localhost may call a server at localhost, whatever the ports.
export default defineConfig({ base: './', server: { port: 5173, strictPort: true } });
