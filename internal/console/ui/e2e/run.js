// Uses the console as people do, in a headless Chromium, on a server that runs at LINKFORGE_TEST_URL:
//
//   node run.js embedded|production
//
// CHROMIUM names the browser. UPDATE_SHOTS=1 replaces the screenshots that it compares with; DOCS_IMAGES names a folder for those of
// the documentation. It exits with 1 when a step fails or a browser complains.
import { faults } from './faults.js';
import { guide } from './guide.js';
import { firstAccount, singleSignOn } from './production.js';
import { roles } from './roles.js';
import { base, complaints, launch, tell } from './stage.js';
import { pictures, tour } from './tour.js';

const [mode, only] = process.argv.slice(2);
const browser = await launch();

// embedded has everything that is looked at; production has what differs there, and each screen once more.
const PARTS = {
  embedded: {
    tour: () => tour({ browser }),
    roles: async () => pictures({ browser, ...await roles({ browser }) }),
    faults: () => faults({ browser }),
    guide: () => guide({ browser, api: base, tell }),
  },
  production: {
    roles: async () => roles({ browser, owner: await firstAccount({ browser }), isRough: true }),
    sso: () => singleSignOn({ browser }),
  },
};

for (const [name, part] of Object.entries(PARTS[mode])) {
  if (only && !only.split(',').includes(name)) continue;
  try {
    await part();
  } catch (error) {
    complaints.push(`${name}: ${error.stack.replace(/\u001b\[\d+m/g, '')}`);
    const page = browser.contexts().flatMap(context => context.pages()).at(-1);
    await page?.screenshot({ path: `${process.env.SHOTS_OUT ?? '.'}/failed-${name}.png` }).catch(() => {});
    for (const context of browser.contexts()) await context.close();
  }
}
await browser.close();
for (const complaint of complaints) console.error(`FAILED: ${complaint}`);
console.log(complaints.length ? `${complaints.length} complaints.` : 'The console works.');
process.exitCode = complaints.length ? 1 : 0;
