package fakecloud

import (
	"fmt"
	"strings"
)

// Unchecked is a contract for operations that no description has, such as "POST /token". It allows everything in them.
// It must be the last of a server's contracts.
func Unchecked(operations ...string) Contract {
	u := unchecked{ops: operations}
	for _, op := range operations {
		method, path, _ := strings.Cut(op, " ")
		u.templates = append(u.templates, newTemplate(method, path))
	}
	u.templates.sort()
	return u
}

type unchecked struct {
	ops       []string
	templates templates
}

func (u unchecked) Operations() []string { return u.ops }

func (u unchecked) Find(c *Call) error {
	t, vars, err := u.templates.find(c.Method, c.Path)
	if err != nil {
		return err
	}
	c.Op, c.Vars = t.op, vars
	return nil
}

func (u unchecked) Check(c *Call) error {
	if len(c.Body) > 0 && isJSON(c.Header.Get("Content-Type")) {
		v, err := decodeJSON(c.Body)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		c.Input = v
	}
	return nil
}

func (u unchecked) Encode(_ *Call, a Answer) (Answer, error) { return a.encode() }
