package fakecloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
)

// GraphQL reads a GraphQL schema from a file, which package apifacts describes. The API is called by POST at path. The name of an
// operation is the only field of its query or mutation: "podTerminate". Input has that field's arguments, with
// variables filled in.
func GraphQL(t testing.TB, file, path string) Contract {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: file, Input: string(read(t, file))})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return &graphQL{path: path, schema: schema}
}

type graphQL struct {
	path   string
	schema *ast.Schema
}

func (g *graphQL) Operations() []string {
	var all []string
	for _, root := range []*ast.Definition{g.schema.Query, g.schema.Mutation} {
		if root == nil {
			continue
		}
		for _, f := range root.Fields {
			if !strings.HasPrefix(f.Name, "__") { // the schema's own
				all = append(all, f.Name)
			}
		}
	}
	return all
}

func (g *graphQL) Find(c *Call) error {
	if c.Path != g.path {
		return fmt.Errorf("%s: GraphQL is at %s", c.Path, g.path)
	}
	field, _, err := g.parse(c)
	if err != nil {
		return err
	}
	c.Op = field.Name
	return nil
}

func (g *graphQL) Check(c *Call) error {
	field, vars, err := g.parse(c)
	if err == nil {
		c.Input = field.ArgumentMap(vars)
	}
	return err
}

// parse returns the only field of a request, and its variables.
func (g *graphQL) parse(c *Call) (*ast.Field, map[string]any, error) {
	var in struct {
		Query         string         `json:"query"`
		OperationName string         `json:"operationName"`
		Variables     map[string]any `json:"variables"`
	}
	if c.Method != "POST" || !isJSON(c.Header.Get("Content-Type")) {
		return nil, nil, errors.New("a GraphQL request is a POST of application/json")
	}
	if err := json.Unmarshal(c.Body, &in); err != nil {
		return nil, nil, fmt.Errorf("body: %w", err)
	}
	query, err := gqlparser.LoadQueryWithRules(g.schema, in.Query, nil)
	if err != nil {
		return nil, nil, err
	}
	op := query.Operations.ForName(in.OperationName)
	if op == nil || len(op.SelectionSet) != 1 {
		return nil, nil, errors.New("a request to a fake asks for one field of one operation")
	}
	field, ok := op.SelectionSet[0].(*ast.Field)
	if !ok {
		return nil, nil, errors.New("a request to a fake asks for a field, not for a fragment")
	}
	for name := range in.Variables {
		if op.VariableDefinitions.ForName(name) == nil {
			return nil, nil, fmt.Errorf("unknown variable %s", name)
		}
	}
	vars, verr := validator.VariableValues(g.schema, op, in.Variables)
	return field, vars, verr
}

// Encode expects the whole object in Body, and answers with the requested fields of it. A field that the schema lacks
// is an error. Text is sent unchanged. [GraphQLError] returns failures.
func (g *graphQL) Encode(c *Call, a Answer) (Answer, error) {
	switch a.Body.(type) {
	case string, []byte, graphQLFailure:
		return a.encode()
	}
	if a.Undescribed {
		return a.encode()
	}
	field, _, err := g.parse(c)
	if err != nil {
		return a, err
	}
	v, err := generic(a.Body)
	if err != nil {
		return a, err
	}
	p := projection{schema: g.schema}
	a.Body = map[string]any{"data": map[string]any{field.Alias: p.value(v, field.Definition.Type, field.SelectionSet, field.Name)}}
	a, err = a.encode()
	return a, errors.Join(append(p.errs, err)...)
}

type graphQLFailure map[string]any

// GraphQLError returns GraphQL's answer to a call that fails, with status 200. The code is in the error's extensions,
// unless it is empty.
func GraphQLError(code, message string) Answer {
	e := map[string]any{"message": message}
	if code != "" {
		e["extensions"] = map[string]any{"code": code}
	}
	return Reply(200, graphQLFailure{"data": nil, "errors": []any{e}})
}
