import { render } from 'preact';
import { LocationProvider } from 'preact-iso';
import { Provider } from '@urql/preact';

import './style/base.css';
import './style/frame.css';
import './style/chart.css';
import './style/links.css';
import './style/link.css';
import './style/boards.css';
import './style/admin.css';
import { client } from './api';
import { App } from './app';
import { wear } from './theme';

wear();
render(
  <Provider value={client}><LocationProvider scope="/app"><App /></LocationProvider></Provider>,
  document.getElementById('app')!,
);
