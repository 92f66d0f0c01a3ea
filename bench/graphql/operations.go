package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// operation is what is asked, again and again.
type operation struct {
	name, title, document string
	// good stands in every answer that is right, and in no other.
	good string
	// creates says that each answer is a new link, in one of as many workspaces.
	creates    bool
	workspaces int
}

// pageSize is how many links a page has, tagsOfLink how many tags each of them.
const (
	pageSize   = 20
	tagsOfLink = 2
)

const (
	meDocument   = `{ me { id email } }`
	pageDocument = `query Page($workspace: ID!) {
  workspace(by: {id: $workspace}) {
    links(first: 20) {
      edges {
        node { code shortUrl originalUrl title tags clickCount status createdAt createdBy { name } }
      }
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
)

// operations are all that there are to measure.
func operations() []operation {
	const created = `"created":true`
	return []operation{
		{name: "me", title: "`me { id email }`", document: meDocument, good: `"me":{"id":"usr_`},
		{name: "page", title: "a page of 20 links", document: pageDocument, good: `"edges":[{"node":{"code":"`,
			workspaces: 1},
		{name: "create", title: "`createLink`, one workspace", document: createDocument, good: created, creates: true,
			workspaces: 1},
		{name: "create16", title: "`createLink`, 16 workspaces", document: createDocument, good: created, creates: true,
			workspaces: 16},
	}
}

func operationNames() (names []string) {
	for _, o := range operations() {
		names = append(names, o.name)
	}
	return names
}

// newURL is where a new link leads, as it is written in a body.
func newURL() string {
	return "https://www.example.com/articles/" + rig.NumberPlace + "/a-title-of-some-words"
}

const newTitle = "A title of some words"

// bodies are the requests, one for each workspace.
func (o operation) bodies(workspaces []string) []string {
	if o.workspaces == 0 {
		return []string{body(o.document, nil)}
	}
	var all []string
	for _, workspace := range workspaces {
		variables := map[string]any{"workspace": workspace}
		if o.creates {
			variables = map[string]any{"input": map[string]any{"workspaceId": workspace, "url": newURL(), "title": newTitle}}
		}
		all = append(all, body(o.document, variables))
	}
	return all
}

func body(document string, variables any) string {
	text, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		panic(err) // texts and maps
	}
	return string(text)
}

// What the links of the page are. Whoever made them is the one who asks.
const (
	email      = rig.TenantEmail
	personName = rig.TenantName
)

func listedURL(number int) string {
	return fmt.Sprintf("https://www.example.com/catalogue/%06d/a-page-of-some-words?utm_source=newsletter", number)
}

func listedTitle(number int) string { return fmt.Sprintf("A page of some words, number %06d", number) }

func listedTags(number int) []string {
	return []string{fmt.Sprintf("season-%02d", number%20), "spring sale"}[:tagsOfLink]
}

// withNumber is a body with a number in its place.
func withNumber(body string, number int) string {
	return strings.Replace(body, rig.NumberPlace, fmt.Sprintf("%0*d", len(rig.NumberPlace), number), 1)
}
