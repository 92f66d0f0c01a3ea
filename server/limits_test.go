package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// fixedLimits are the limit and the subject of rows without a variable, by the constant or rate in the
// code.
var fixedLimits = map[string]string{
	"graph.callersOfKeys": "requests and cost, as multiples of these rates | " +
		"API keys of a workspace, or of one creator",
	"graph.callersOfNetwork":             "requests and cost, as multiples of these rates | address network",
	"graph.callersOfWideNetwork":         "requests and cost, as multiples of these rates | IPv6 /48",
	"graph.maxLists":                     "lists of links at once | operation",
	"graph/limit.maxValues":              "JSON values | request",
	"graph/limit.maxTokens":              "lexical tokens | document",
	"graph/limit.maxFields":              "fields, after fragments are expanded | operation",
	"graph/limit.maxRootFields":          "root fields | operation",
	"graph/limit.maxDepth":               "depth | operation",
	"graph/limit.maxRepeated":            "the same response name (alias or field) | selection set",
	"graph/limit.maxFragments":           "fragment spreads, including inline fragments | operation",
	"graph/limit.maxAliases":             "aliases | operation",
	"graph/limit.maxDirectives":          "directives | operation",
	"graph/limit.maxPasswords":           "password operations (log-in, registration, password check) | operation",
	"graph/transport.MaxAnonymousBody":   "request body, WebSocket message | anonymous request, message",
	"graph/transport.maxBodies":          "bodies above 64 KiB at once | node; an owner has an eighth",
	"graph/transport.maxStreamsOfCaller": "subscriptions at once | caller",
	"graph/transport.maxStreamsOfGroup":  "subscriptions at once | group of callers",
	"graph/transport.maxStreams":         "subscriptions at once | node",
	"graph/transport.maxSocketsOfCaller": "WebSocket connections at once | caller",
	"graph/transport.maxSocketsOfGroup":  "WebSocket connections at once | group of callers",
	"graph/transport.maxSockets":         "WebSocket connections at once | node",
	"graph/transport.expensivePerProcessor": "operations of 25 points or more at once, per processor | " +
		"node; an owner has a quarter, so that half of the processors is free of its work",
	"graph/transport.maxOperations": "operations at once | WebSocket connection",
	"internal/tenant/account.maxWaiting": "password checks that wait; strangers, who register, have half of a node's " +
		"and are last | account; where it has not logged in, IPv4 address or IPv6 /48",
	"internal/tenant/account.wrongFromAddress":   "wrong passwords | account from an address network",
	"internal/tenant/account.wrongOfAccount":     "wrong passwords | account from all addresses",
	"internal/tenant/account.lastFromAddress":    "wrong passwords after that | account from an address network",
	"internal/tenant/account.wrongOfSession":     "wrong passwords | session",
	"internal/tenant/account.startsPerAddress":   "log-ins at the identity provider that start | address network",
	"internal/tenant/account.finishesPerAddress": "log-ins at the identity provider that end | address network",
	"internal/tenant/account.wrongCodesOfAccount": "wrong codes of authenticator apps | account; recovery codes " +
		"still work",
	"internal/tenant/account.wrongCodesPerAddress":     "wrong codes of authenticator apps | address network",
	"internal/tenant/account.wrongPerAddress":          "wrong passwords | address network",
	"internal/tenant/account.rightOfAccount":           "correct passwords | account",
	"internal/tenant/account.rightPerAddress":          "correct passwords | address network",
	"internal/tenant/account.registersPerAddress":      "registrations | address network",
	"internal/tenant/account.verificationsPerAccount":  "mails to verify an address | account",
	"internal/tenant/account.requestsPerEmail":         "mails to reset a password | e-mail address",
	"internal/tenant/account.requestsPerAddress":       "requests to reset a password | address network",
	"internal/tenant/account.resetsPerAddress":         "password resets with a token | address network",
	"internal/link/creation.anonymousPerAddress":       "anonymous links | address network",
	"internal/tenant/domain.maxPerWorkspace":           "domains | workspace",
	"internal/tenant/domain.verificationsPerWorkspace": "verifications of domains | workspace",
	"internal/link.maxPending":                         "pending changes | link",
	"internal/tenant/folder.maxTemplates":              "UTM templates | workspace",
	"internal/tenant/folder.maxPerWorkspace":           "folders | workspace",
	"internal/link/creation.publishablePerAddress":     "links of publishable API keys | address network and workspace",
	"internal/link/creation.maxPublishable":            "links in a call with a publishable API key | call",
	"internal/tenant/apikey.maxDestinationHosts":       "destination hosts | API key",
	"internal/tenant/apikey.maxOrigins":                "origins of pages | API key",
	"internal/tenant/apikey.maxNetworks":               "networks | API key",
	"internal/tenant/apikey.maxRequestsPerMinute":      "requests of its own rate per minute | API key",
	"internal/tenant/apikey.maxLinksPerDay":            "links of its own quota on a day (UTC) | publishable API key",
	"internal/link.membersPart": "part of the workspace's links in a calendar month that a day's default is, and " +
		"that is for members alone | publishable API key",
	"internal/tenant/apikey.maxFolders":          "folders | API key",
	"internal/event/webhook.maxPerWorkspace":     "webhooks | workspace",
	"internal/link/moderation.reportsPerAddress": "reports of abuse | address network",
	"internal/link/upkeep.perWorkspace":          "checks of destinations on request | workspace",
	"internal/visit/redirect.wrongFromNetwork":   "wrong passwords of a link | address network",
	"internal/visit/redirect.wrongOfLink":        "wrong passwords of a link | all networks",
	"internal/visit/redirect.lastFromNetwork":    "wrong passwords of a link after that | address network",
	"internal/platform/qr.maxOwnWaiting": "checks of QR styles and images of QR codes that wait; a node does one " +
		"at a time | owner; workspace of a public image",
	"internal/event/webhook.initialConcurrency": "requests to receivers at once | webhook",
	"internal/event/dispatch.maxSending": "requests to receivers at once | " +
		"node; an account has a quarter, a workspace an eighth, slow failures a half",
	"internal/event/dispatch.maxPerHost":                "requests to one host at once | node; the same shares",
	"internal/event/dispatch.testRate":                  "tests of webhooks | workspace",
	"internal/event/dispatch.webhookRate":               "requests to receivers | webhook",
	"internal/event/dispatch.workspaceRate":             "requests to receivers | workspace",
	"internal/tenant/workspace.invitationsPerWorkspace": "invitations | workspace",
	"internal/tenant/workspace.invitationsPerAccount": "invitations | account; where mail is sent, with a verified " +
		"address",
	"internal/tenant/workspace.invitationsPerRecipient": "invitations | recipient",
	"server.exports":                 "exports | user or API key",
	"server.uploadRate":              "uploads | account of the workspace",
	"server.archiveRanges":           "parts of archives | user or API key",
	"server.maxUploads":              "uploads at once | node; the account of a workspace has 2",
	"internal/move/importer.apiRate": "requests to the API of a source | host",
	"internal/move/parity.hostRate":  "requests of parity checks | host",
	"internal/move/task.maxArchives": "stored archives | workspace",
	"internal/move/task.maxFiles":    "stored files of dry runs | workspace",
	"internal/move/task.importsOfWorkspace": "bytes of stored files of imports, as files of the largest size " +
		"| workspace",
	"internal/move/task.importsOfAccount": "bytes of stored files of imports, as files of the largest size " +
		"| account of the workspaces",
	"internal/move/task.archivesOfAccount": "bytes of stored archives, as archives of the largest size " +
		"| account of the workspaces",
	"internal/move/task.maxReports":       "reports with rows | workspace",
	"internal/move/task.maxRows":          "rows of reports | workspace",
	"internal/move/task.maxRowsOfAccount": "rows of reports | account of the workspaces",
	"internal/move/importer.maxKept":      "rows of an import with the outcome FAILED, and of those SKIPPED | report",
	"internal/move/task.maxUnfinished":    "tasks that have not ended | workspace",
	"server.pngImages":                    "QR codes as PNG | address network",
	"server.statsPages":                   "pages about links (`/CODE+`) | address network",
	"server.svgImages":                    "QR codes as SVG | address network",
}

// limitVariable are the variables that limit what callers may do; others configure the node.
var limitVariable = regexp.MustCompile(`^LINKFORGE_(MAX_\w+|\w+_RATE|\w+_QUOTA|UNKNOWN_CODES|` +
	`SLUG_CHANGES|LIST_TIMEOUT|OPERATION_DEADLINE)$`)

// inWords are defaults that the guide does not give as a number.
var inWords = map[string]string{"LINKFORGE_DATABASE_POOL": "half of the pool"}

// TestLimits_AreDocumented compares the table of limits in the guide with the settings, and with the
// constants and rates of the code: each has a row with its value, and each row is one of them.
func TestLimits_AreDocumented(t *testing.T) {
	t.Parallel()
	rows := limitRows(t)
	defaults := settingDefaults(t)
	for name, value := range defaults {
		i := slices.IndexFunc(rows, func(r limitRow) bool { return r.variable == name })
		if i < 0 {
			if limitVariable.MatchString(name) {
				t.Errorf("%s is not in the table", name)
			}
			continue
		}
		if want, ok := inWords[name]; ok {
			value = want
		}
		if got := plainValue(rows[i].value); got != value {
			t.Errorf("%s is %s by default, the table says %s", name, value, got)
		}
	}
	code := limitsInCode(t)
	for name, value := range code {
		if fixedLimits[name] == "" {
			t.Errorf("the rate %s is not in the table: name its row in fixedLimits", name)
		}
		i := slices.IndexFunc(rows, func(r limitRow) bool {
			return r.variable == "–" && r.limit+" | "+r.subject == fixedLimits[name]
		})
		if i < 0 {
			t.Errorf("%s has no row %q", name, fixedLimits[name])
		} else if got := plainValue(rows[i].value); got != value &&
			!regexp.MustCompile(`^`+value+`;`).MatchString(got) {
			t.Errorf("%s is %s, the table says %s", name, value, got)
		}
	}
	for name := range fixedLimits {
		if code[name] == "" {
			t.Errorf("the code has no %s", name)
		}
	}
	for _, r := range rows {
		if _, known := defaults[r.variable]; !known && r.variable != "–" {
			t.Errorf("the row %q has the unknown variable %s", r.limit, r.variable)
		}
		fixed := false
		for _, row := range fixedLimits {
			fixed = fixed || row == r.limit+" | "+r.subject
		}
		if r.variable == "–" && !fixed {
			t.Errorf("the row %q of %q is compared with nothing", r.limit, r.subject)
		}
		for _, code := range regexp.MustCompile(`[A-Z_]{4,}`).FindAllString(r.error, -1) {
			if errs.Coded(code) == errs.Internal {
				t.Errorf("the row %q has the unknown error %s", r.limit, code)
			}
		}
	}
}

// limitRow is a row of the guide's table.
type limitRow struct{ limit, subject, value, variable, error string }

func limitRows(t *testing.T) (rows []limitRow) {
	t.Helper()
	for line := range strings.Lines(readFile(t, "../docs/guide/limits.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| limit |") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, limitRow{cells[0], cells[1], cells[2], strings.Trim(cells[3], "`"), cells[4]})
	}
	return rows
}

// settingDefaults returns the default of each variable: the guide's table of settings is generated.
func settingDefaults(t *testing.T) map[string]string {
	t.Helper()
	defaults := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(LINKFORGE_\\w+)` \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(readFile(t, "../docs/guide/configuration.md"), -1) {
		defaults[m[1]] = strings.ReplaceAll(strings.TrimSpace(m[2]), "`", "")
	}
	return defaults
}

// plainValue returns a value of the table as it is written in the code: sizes in bytes, without commas.
func plainValue(text string) string {
	text = strings.ReplaceAll(text, ",", "")
	if m := regexp.MustCompile(`^(\d+) ([KMG])iB$`).FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return strconv.Itoa(n << map[string]int{"K": 10, "M": 20, "G": 30}[m[2]])
	}
	return regexp.MustCompile(`^(\d+) s$`).ReplaceAllString(text, "${1}s")
}

// windows are durations of rates as they are written in the code and in the guide.
var windows = map[string]string{
	"time.Second": "a second", "time.Minute": "a minute", "15 * time.Minute": "15 minutes", "time.Hour": "an hour",
	"24 * time.Hour": "a day",
}

// limitsInCode returns the values of all rates, and of the constants that fixedLimits names, by folder
// and name.
func limitsInCode(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, root := range []string{"../graph", "../internal", "."} {
		must.NoError(t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				strings.Contains(name, "/gen/") {
				return err
			}
			source := readFile(t, name)
			file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
			if err != nil {
				return err
			}
			folder := strings.TrimPrefix(path.Dir(name), "../")
			if folder == "." {
				folder = "server"
			}
			collectLimits(file, source, folder, values)
			return nil
		}))
	}
	return values
}

// collectLimits adds the rates of a file, and its constants that fixedLimits names.
func collectLimits(file *ast.File, source, folder string, values map[string]string) {
	text := func(n ast.Node) string { return source[n.Pos()-file.FileStart : n.End()-file.FileStart] }
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range group.Specs {
			spec, ok := s.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 {
				continue
			}
			name := folder + "." + spec.Names[0].Name
			if literal, ok := spec.Values[0].(*ast.CompositeLit); ok {
				if literal.Type != nil && text(literal.Type) == "ratelimit.Rate" {
					values[name] = rateText(literal, text)
				}
			} else if fixedLimits[name] != "" {
				values[name] = text(spec.Values[0])
			}
		}
	}
}

// rateText returns the number and the window of a ratelimit.Rate.
func rateText(literal *ast.CompositeLit, text func(ast.Node) string) string {
	fields := map[string]string{}
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			fields[text(pair.Key)] = text(pair.Value)
		}
	}
	return fields["Attempts"] + " in " + windows[fields["Window"]]
}
