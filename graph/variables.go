package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/linkforge/linkforge/internal/errs"
)

// variableCheck refuses what the GraphQL library lets through in variables: enum values in another case, and
// @oneOf inputs with none or several of their fields.
type variableCheck struct {
	schema *ast.Schema
}

// ExtensionName implements graphql.HandlerExtension.
func (*variableCheck) ExtensionName() string { return "VariableCheck" }

// Validate implements graphql.HandlerExtension.
func (c *variableCheck) Validate(schema graphql.ExecutableSchema) error {
	c.schema = schema.Schema()
	return nil
}

// MutateOperationContext implements graphql.OperationContextMutator.
func (c *variableCheck) MutateOperationContext(_ context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	for _, variable := range operation.Operation.VariableDefinitions {
		problem := c.check(variable.Type, operation.Variables[variable.Variable])
		if problem != "" {
			return refused(errs.BadRequest, "Variable "+variable.Variable+": "+problem)
		}
	}
	return nil
}

// check says what is wrong with a value that has the right shape already.
func (c *variableCheck) check(t *ast.Type, value any) (problem string) {
	if items, ok := value.([]any); ok && t.Elem != nil {
		for _, item := range items {
			if problem := c.check(t.Elem, item); problem != "" {
				return problem
			}
		}
		return ""
	}
	definition := c.schema.Types[t.Name()]
	switch value := value.(type) {
	case string:
		if definition.Kind == ast.Enum && definition.EnumValues.ForName(value) == nil {
			return "that is not a value of " + definition.Name + "."
		}
	case map[string]any:
		return c.checkInput(definition, value)
	}
	return ""
}

func (c *variableCheck) checkInput(definition *ast.Definition, input map[string]any) (problem string) {
	given := 0
	for _, field := range definition.Fields {
		value, ok := input[field.Name]
		if !ok {
			continue
		}
		if value != nil {
			given++
		}
		if problem := c.check(field.Type, value); problem != "" {
			return problem
		}
	}
	if definition.Directives.ForName("oneOf") != nil && (given != 1 || len(input) != 1) {
		return "give exactly one of the fields of " + definition.Name + "."
	}
	return ""
}
