// Package linkforge holds the public contract: the GraphQL schema.
package linkforge

import _ "embed"

//go:generate go tool gqlgen generate

// Schema is the schema's SDL.
//
//go:embed schema.graphql
var Schema string
