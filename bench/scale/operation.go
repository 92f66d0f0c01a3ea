package main

import (
	"encoding/json"
	"fmt"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// operation is what is asked, again and again, of an estate.
type operation struct {
	name, title string
	// link is which link is followed in a turn: by a GET, or by a HEAD when it only looks. It is nil
	// for what asks GraphQL.
	link  func(s shape, turn int, drawn []int) int
	looks bool
	// once says that each request is about a link of its own, of which there are only so many: it is
	// asked a number of times instead of for a while.
	once bool
	// turns is how often it is asked, instead of for a while; zero for most.
	turns int
	// puts says that there is work to do after the answer.
	puts bool
	// document and variables are what GraphQL is asked in a turn, good stands in every right answer.
	document  string
	variables func(s shape, turn int) map[string]any
	good      string
}

const (
	pageDocument = `query Page($workspace: ID!, $filter: LinkFilter) {
  workspace(by: {id: $workspace}) {
    links(first: 20, filter: $filter) {
      edges { node { code shortUrl originalUrl title status createdAt } }
      pageInfo { hasNextPage endCursor }
    }
  }
}`
	createDocument = `mutation Create($input: CreateLinkInput!) {
  createLink(input: $input) {
    link { id code shortUrl originalUrl title status createdAt }
    created
    errors { message code field }
  }
}`
	statsDocument = `query Stats($id: ID!) {
  link(by: {id: $id}) { stats { clicks visitors series(interval: DAY) { start clicks visitors } } }
}`
	found = `"edges":[{"node":{"code":"`
)

// operations are all that there are to measure.
func operations() []operation {
	return []operation{
		{name: "hot", title: "redirect, from memory", link: hotLink, turns: 30_000, puts: true},
		{name: "look", title: "resolve (`HEAD`), not in memory", link: coldLink, looks: true, once: true},
		{name: "cold", title: "redirect, not in memory", link: coldLink, once: true, puts: true},
		{name: "create", title: "`createLink`, a new URL", puts: true, document: createDocument, good: `"created":true`,
			variables: newLink},
		{name: "known", title: "`createLink`, a known URL", document: createDocument, good: `"created":false`,
			variables: knownLink},
		{name: "large", title: "a page of 20, the largest workspace", document: pageDocument, good: found,
			variables: pageOfLargest},
		{name: "small", title: "a page of 20, a small workspace", document: pageDocument, good: found,
			variables: pageOfSmall},
		{name: "word", title: "search: a word of 20 links", document: pageDocument, good: found, variables: searchWord},
		{name: "serial", title: "search: 8 digits of a URL", document: pageDocument, good: found, variables: searchSerial},
		{name: "stats", title: "stats of a link, 30 days", document: statsDocument, good: `"series":[{"start":"`,
			variables: statsOfLink},
	}
}

// sweep looks at each hot link once, so that a node remembers it.
var sweep = operation{name: "sweep", looks: true, once: true,
	link: func(s shape, turn int, _ []int) int { return s.colds() + turn }}

// follow follows links in the same order, so that a node has hits of their months in its hands.
var follow = operation{name: "follow", once: true, puts: true, link: sweep.link}

func operationNamed(name string) (operation, error) {
	for _, o := range append(operations(), sweep, follow) {
		if o.name == name {
			return o, nil
		}
	}
	return operation{}, fmt.Errorf("there is no operation %q", name)
}

func operationNames() (names []string) {
	for _, o := range operations() {
		names = append(names, o.name)
	}
	return names
}

func hotLink(_ shape, turn int, drawn []int) int { return drawn[turn%len(drawn)] }

func coldLink(s shape, turn int, _ []int) int { return s.cold(turn) }

func newLink(s shape, turn int) map[string]any {
	to := "https://www.example.com/news/" + rig.NumberPlace + "/a-title-of-some-words"
	return linkInput(s.workspaceID(turn%s.asked()), to)
}

// knownLink asks for links that have been there from the beginning.
func knownLink(s shape, turn int) map[string]any {
	workspace := turn % s.asked()
	return linkInput(s.workspaceID(workspace), urlOf(s.linkOf(workspace, scattered(turn/s.asked(), s.size(workspace)))))
}

func linkInput(workspace, to string) map[string]any {
	return map[string]any{"input": map[string]any{"workspaceId": workspace, "url": to, "title": "A page of the news"}}
}

func pageOfLargest(s shape, _ int) map[string]any {
	return map[string]any{"workspace": s.workspaceID(0)}
}

func pageOfSmall(s shape, turn int) map[string]any {
	return map[string]any{"workspace": s.workspaceID(1 + turn%(s.asked()-1))}
}

func searchWord(s shape, _ int) map[string]any { return search(s, rareWord) }

// searchSerial asks for one link each time, by digits that are in many others too, but never in
// that order.
func searchSerial(s shape, turn int) map[string]any {
	return search(s, fmt.Sprintf("%08d", serial(s.linkOf(0, scattered(turn, s.size(0))))))
}

func search(s shape, word string) map[string]any {
	return map[string]any{"workspace": s.workspaceID(0), "filter": map[string]any{"search": word}}
}

// statsOfLink takes turns with hot links of the largest workspace.
func statsOfLink(s shape, turn int) map[string]any {
	const several = 50
	first := (s.colds() + largest - 1) / largest
	return map[string]any{"id": s.linkID(s.linkOf(0, first+turn%min(several, s.size(0)-first)))}
}

// request is that of a turn, as rig.Load takes it. New links take the number of the load: their
// turn only selects a workspace.
func (o operation) request(s shape, turn int, drawn []int) string {
	if o.link == nil {
		body, err := json.Marshal(map[string]any{"query": o.document, "variables": o.variables(s, turn)})
		if err != nil {
			panic(err) // texts and maps
		}
		return string(body)
	}
	method := ""
	if o.looks {
		method = "?"
	}
	return method + "/" + rig.Code(o.link(s, turn, drawn))
}
