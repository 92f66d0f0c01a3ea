package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// recipePage is the page of the guide with requests of other programs.
const recipePage = "recipes.md"

// recipe sends the request that a block describes, as its program does, and follows the short URL that the program
// takes from the response.
func (r *reader) recipe(where, block string) {
	r.t.Helper()
	var shortURL, destination string
	switch {
	case strings.Contains(block, `"RequestURL"`):
		destination = "https://www.example.com/sharex?a=1&b=2"
		shortURL = r.shareX(block, destination)
	case strings.Contains(block, `"n8n-nodes-base.httpRequest"`):
		destination = "https://www.example.com/n8n?a=1&b=2"
		shortURL = r.n8n(block, destination)
	case strings.HasPrefix(block, "javascript:"):
		destination = "https://www.example.com/bookmarklet?a=1&b=2"
		shortURL = r.node("const page = '"+destination+"';"+bookmarkletHost, strings.TrimPrefix(block, "javascript:"))
	case strings.HasPrefix(block, "export default"):
		destination = "https://www.example.com/slack?a=1&b=2"
		shortURL = r.node("const typed = '"+destination+"', key = '"+r.apiKey()+"';"+slackHost, block)
	case strings.HasPrefix(block, "- id: "):
		destination = "https://www.example.com/github?a=1&b=2"
		shortURL = r.action(block, destination)
	default:
		return
	}
	r.ran++
	code, isOurs := strings.CutPrefix(shortURL, r.public)
	if !isOurs {
		r.t.Errorf("%s: the short URL is %q", where, shortURL)
		return
	}
	if to := r.expect(r.t, http.StatusFound, http.MethodGet, code).header.Get("Location"); to != destination {
		r.t.Errorf("%s: the short URL leads to %s, want %s", where, to, destination)
	}
}

// apiKey is the key that the page has created.
func (r *reader) apiKey() string { return r.values["lfk_7QK3W7RZC2XNPJH6TBVDYM4GLA"] }

// post sends a body of JSON with a key, and returns the short URL of the response.
func (r *reader) post(url, authorization, body string) string {
	r.t.Helper()
	request := must.Value(http.NewRequestWithContext(r.t.Context(), http.MethodPost, url, strings.NewReader(body)))(r.t)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", authorization)
	response := must.Value(r.http.Do(request))(r.t)
	defer response.Body.Close()
	var got struct {
		Data struct{ CreateLink struct{ ShortURL string } }
	}
	must.NoError(r.t, json.NewDecoder(response.Body).Decode(&got))
	return got.Data.CreateLink.ShortURL
}

// quotedIn is a text between the quotation marks of JSON.
func (r *reader) quotedIn(text string) string {
	return string(must.Value(json.Marshal(text))(r.t))
}

func (r *reader) shareX(block, destination string) string {
	r.t.Helper()
	var uploader struct {
		Version, DestinationType, RequestMethod, RequestURL, Body, Data, URL string
		Headers                                                              map[string]string
	}
	must.NoError(r.t, json.Unmarshal([]byte(block), &uploader))
	if uploader.RequestMethod != http.MethodPost || uploader.Body != "JSON" ||
		uploader.DestinationType != "URLShortener" || uploader.URL != "{json:data.createLink.shortUrl}" {
		r.t.Errorf("ShareX: %+v", uploader)
	}
	body := strings.ReplaceAll(uploader.Data, "{input}", strings.Trim(r.quotedIn(destination), `"`))
	return r.post(uploader.RequestURL, uploader.Headers["Authorization"], body)
}

func (r *reader) n8n(block, destination string) string {
	r.t.Helper()
	var workflow struct {
		Nodes []struct {
			Parameters struct{ Method, URL, GenericAuthType, JSONBody string }
		}
	}
	must.NoError(r.t, json.Unmarshal([]byte(block), &workflow))
	p := workflow.Nodes[0].Parameters
	body, isExpression := strings.CutPrefix(p.JSONBody, "=")
	if p.Method != http.MethodPost || p.GenericAuthType != "httpBearerAuth" || !isExpression {
		r.t.Errorf("n8n: %+v", p)
	}
	body = strings.ReplaceAll(body, "{{ JSON.stringify($json.url) }}", r.quotedIn(destination))
	return r.post(p.URL, "Bearer "+r.apiKey(), body)
}

// action runs the first step of a job of GitHub Actions, and returns the url that it outputs.
func (r *reader) action(block, destination string) string {
	r.t.Helper()
	var steps []struct {
		Run string
		Env map[string]string
	}
	must.NoError(r.t, yaml.Unmarshal([]byte(block), &steps))
	output := filepath.Join(r.t.TempDir(), "output")
	run := exec.CommandContext(r.t.Context(), "bash", "-e", "-c", steps[0].Run)
	run.Env = append(os.Environ(), "GITHUB_OUTPUT="+output)
	for name, value := range steps[0].Env {
		if strings.Contains(value, "secrets.") {
			value = r.apiKey()
		} else {
			value = destination
		}
		run.Env = append(run.Env, name+"="+value)
	}
	if said, err := run.CombinedOutput(); err != nil {
		r.t.Errorf("%v: %s", err, said)
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(readFile(r.t, output), "url="))
}

const (
	// bookmarkletHost runs a bookmarklet in a page.
	bookmarkletHost = `
		const send = fetch, location = { href: page }, alert = console.log, prompt = (_, text) => console.log(text);
		globalThis.fetch = (url, options) =>
			send(url, { ...options, headers: { ...options.headers, Origin: new URL(page).origin } });
		eval(recipe);`
	// slackHost calls a worker as Slack does, and with a signature of another secret.
	slackHost = `
		const { createHmac } = await import('node:crypto');
		const worker = (await import('data:text/javascript,' + encodeURIComponent(recipe))).default;
		const body = new URLSearchParams({ command: '/shorten', text: typed }).toString();
		const sign = (secret, at) => createHmac('sha256', secret).update('v0:' + at + ':' + body).digest('hex');
		const call = (secret, at) => worker.fetch(new Request('https://worker.example/', { method: 'POST', body,
			headers: { 'X-Slack-Request-Timestamp': at, 'X-Slack-Signature': 'v0=' + sign(secret, at) },
		}), { SLACK_SIGNING_SECRET: 'ours', LINKFORGE_API_KEY: key });
		const now = Math.floor(Date.now() / 1000);
		for (const refused of [await call('theirs', now), await call('ours', now - 301), await call('ours', '')]) {
			if (refused.status !== 401) throw new Error(await refused.text());
		}
		console.log((await (await call('ours', now)).json()).text);`
)

// node runs a program with the text of a recipe, and returns its output.
func (r *reader) node(program, recipe string) string {
	r.t.Helper()
	run := exec.CommandContext(r.t.Context(), "node", "--input-type=module", "--eval",
		"const recipe = "+r.quotedIn(recipe)+";"+program)
	said, err := run.CombinedOutput()
	if err != nil {
		r.t.Errorf("%v: %s", err, said)
	}
	return strings.TrimSpace(string(said))
}

// needed are the programs that recipes need.
var needed = []string{"node", "jq", "bash"}

// hasRecipePrograms reports whether the recipes can be tried: curl is older than --json in some systems.
func hasRecipePrograms() bool {
	for _, program := range needed {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	version, err := exec.Command("curl", "--version").Output()
	return err == nil && !regexp.MustCompile(`^curl 7\.([0-7]\d|8[01])\.`).Match(version)
}
