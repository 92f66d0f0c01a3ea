package main

import (
	"fmt"

	"github.com/linkforge/linkforge"
)

// schemaCommand is `linkforge schema`.
type schemaCommand struct{}

// Run prints the schema's SDL.
func (schemaCommand) Run(io stdio) error {
	_, err := fmt.Fprint(io.out, linkforge.Schema)
	return err
}
