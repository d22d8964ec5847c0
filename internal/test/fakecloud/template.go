package fakecloud

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A template is the path of an operation: /pods/{id}. A variable {+path} may contain slashes.
type template struct {
	op           string // the operation's name
	method, path string
	names        []string
	expr         *regexp.Regexp
}

var variable = regexp.MustCompile(`\{(\+?)([^{}]+)\}`)

func newTemplate(method, path string) template {
	t := template{op: method + " " + path, method: method, path: path}
	var expr strings.Builder
	rest := 0
	for _, m := range variable.FindAllStringSubmatchIndex(path, -1) {
		expr.WriteString(regexp.QuoteMeta(path[rest:m[0]]))
		if m[2] == m[3] {
			expr.WriteString(`([^/]+)`)
		} else {
			expr.WriteString(`(.+)`)
		}
		t.names = append(t.names, path[m[4]:m[5]])
		rest = m[1]
	}
	t.expr = regexp.MustCompile("^" + expr.String() + regexp.QuoteMeta(path[rest:]) + "$")
	return t
}

// templates are the templates of an API, those with the fewest variables first.
type templates []template

func (ts templates) sort() {
	slices.SortFunc(ts, func(a, b template) int {
		return cmp.Or(cmp.Compare(len(a.names), len(b.names)), cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method))
	})
}

// find returns the template of a request and the values of its variables.
func (ts templates) find(method, path string) (*template, map[string]string, error) {
	var methods []string
	for i, t := range ts {
		m := t.expr.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		if t.method != method {
			methods = append(methods, t.method)
			continue
		}
		vars := map[string]string{}
		for j, name := range t.names {
			v, err := url.PathUnescape(m[j+1])
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", path, err)
			}
			vars[name] = v
		}
		return &ts[i], vars, nil
	}
	if methods != nil {
		return nil, nil, fmt.Errorf("%s: no %s there, only %s", path, method, strings.Join(methods, ", "))
	}
	return nil, nil, fmt.Errorf("%s: unknown path", path)
}
