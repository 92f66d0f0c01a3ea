// Package linkforge holds the public contract: the GraphQL schema.
package linkforge

import _ "embed"

//go:generate scripts/subgraph
//go:generate go tool gqlgen generate

// Schema is the schema's SDL.
//
//go:embed schema.graphql
var Schema string

// Subgraph is the schema as a subgraph of Apollo Federation 2. scripts/subgraph writes it.
//
//go:embed graph/gen/subgraph.graphql
var Subgraph string
