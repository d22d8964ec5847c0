package fakecloud

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// EC2 reads the facts of an API with EC2's query protocol from a file, which package apifacts describes. Its operations are
// named by their actions: "RunInstances". Input has the members under their SDK names: ImageId.
//
// beyond lists keys that the service accepts but that are newer than the model, by action:
// "RunInstances.NetworkPerformanceOptions". Values below them are not checked.
func EC2(t testing.TB, file string, beyond ...string) Contract {
	t.Helper()
	e := &ec2{beyond: beyond}
	if err := json.Unmarshal(read(t, file), &e.model); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(e.model.Operations) == 0 {
		t.Fatalf("%s: no operation in it", file)
	}
	return e
}

type ec2 struct {
	beyond []string
	model  struct {
		Metadata struct {
			APIVersion   string `json:"apiVersion"`
			XMLNamespace string `json:"xmlNamespace"`
		} `json:"metadata"`
		Operations map[string]struct {
			Input  *shapeRef `json:"input"`
			Output *shapeRef `json:"output"`
		} `json:"operations"`
		Shapes map[string]*shape `json:"shapes"`
	}
}

// A shape is a type of the model.
type shape struct {
	Type     string              `json:"type"`
	Members  map[string]shapeRef `json:"members"`
	Member   shapeRef            `json:"member"`
	Required []string            `json:"required"`
	Enum     []string            `json:"enum"`
	Min      *float64            `json:"min"`
	Max      *float64            `json:"max"`
	Pattern  string              `json:"pattern"`
}

type shapeRef struct {
	Shape        string `json:"shape"`
	LocationName string `json:"locationName"`
	QueryName    string `json:"queryName"`
}

func (e *ec2) Operations() []string { return keys(e.model.Operations) }

func (e *ec2) Find(c *Call) error {
	if c.Method != "POST" || c.Path != "/" {
		return errors.New("every request is a POST of a form to /")
	}
	form, err := url.ParseQuery(string(c.Body))
	if err != nil {
		return fmt.Errorf("the form: %w", err)
	}
	c.Op = form.Get("Action")
	if _, ok := e.model.Operations[c.Op]; !ok {
		return fmt.Errorf("unknown Action %q", c.Op)
	}
	return nil
}

func (e *ec2) Check(c *Call) error {
	form, err := url.ParseQuery(string(c.Body))
	if err != nil {
		return err
	}
	if v := form.Get("Version"); v != e.model.Metadata.APIVersion {
		return fmt.Errorf("the Version is %q, not %s", v, e.model.Metadata.APIVersion)
	}
	form.Del("Action")
	form.Del("Version")
	tree := &formNode{}
	var errs []error
	for key, values := range form {
		if len(values) > 1 {
			errs = append(errs, fmt.Errorf("%s occurs %d times", key, len(values)))
		}
		if !slices.ContainsFunc(e.beyond, func(b string) bool {
			return c.Op+"."+key == b || strings.HasPrefix(c.Op+"."+key, b+".")
		}) {
			tree.put(strings.Split(key, "."), values[0])
		}
	}
	in := e.model.Operations[c.Op].Input
	if in == nil {
		in = &shapeRef{}
	}
	w := walk{model: e, errs: errs}
	c.Input = w.value(tree, *in, "")
	return errors.Join(w.errs...)
}

// A formNode is a node in the tree of a form's keys: A.1.B is B in 1 in A.
type formNode struct {
	text  *string
	below map[string]*formNode
}

func (n *formNode) put(path []string, text string) {
	if len(path) == 0 {
		n.text = &text
		return
	}
	if n.below == nil {
		n.below = map[string]*formNode{}
	}
	if n.below[path[0]] == nil {
		n.below[path[0]] = &formNode{}
	}
	n.below[path[0]].put(path[1:], text)
}

// A walk compares a request with the shapes of its action.
type walk struct {
	model *ec2
	errs  []error
}

func (w *walk) complain(at, format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf("%s: "+format, append([]any{strings.TrimPrefix(at, ".")}, args...)...))
}

func (w *walk) value(n *formNode, ref shapeRef, at string) any {
	s := w.model.model.Shapes[ref.Shape]
	if s == nil {
		s = &shape{Type: "structure"} // the action has no input
	}
	compound := s.Type == "structure" || s.Type == "list"
	switch {
	case compound && n.text != nil:
		w.complain(at, "a value instead of members")
	case !compound && n.below != nil:
		for _, name := range keys(n.below) {
			w.complain(at+"."+name, "unknown")
		}
	case s.Type == "structure":
		return w.structure(n, s, at)
	case s.Type == "list":
		return w.list(n, s, at)
	default:
		v, err := s.scalar(*n.text)
		if err != nil {
			w.complain(at, "%w", err)
		}
		return v
	}
	return nil
}

func (w *walk) structure(n *formNode, s *shape, at string) any {
	out := map[string]any{}
	wire := map[string]bool{}
	for name, m := range s.Members {
		key := m.key(name)
		wire[key] = true
		if child := n.below[key]; child != nil {
			out[name] = w.value(child, m, at+"."+key)
		} else if slices.Contains(s.Required, name) {
			w.complain(at+"."+key, "missing")
		}
	}
	for _, key := range keys(n.below) {
		if !wire[key] {
			w.complain(at+"."+key, "unknown")
		}
	}
	return out
}

// key returns the key of the member in a form.
func (r shapeRef) key(name string) string {
	switch {
	case r.QueryName != "":
		return r.QueryName
	case r.LocationName != "":
		return strings.ToUpper(r.LocationName[:1]) + r.LocationName[1:]
	}
	return name
}

// list reads items that are numbered from 1.
func (w *walk) list(n *formNode, s *shape, at string) any {
	out := make([]any, len(n.below))
	for i := range out {
		key := strconv.Itoa(i + 1)
		if n.below[key] == nil {
			w.complain(at, "items %s are not numbered from 1", strings.Join(keys(n.below), ", "))
			return nil
		}
		out[i] = w.value(n.below[key], s.Member, at+"."+key)
	}
	if err := s.bounds(float64(len(out)), "items"); err != nil {
		w.complain(at, "%w", err)
	}
	return out
}

func (s *shape) scalar(text string) (v any, err error) {
	switch s.Type {
	case "boolean":
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("%q is not true or false", text)
		}
		return text == "true", nil
	case "integer", "long":
		n, err := strconv.ParseInt(text, 10, 64)
		return n, errors.Join(err, s.bounds(float64(n), ""))
	case "float", "double":
		f, err := strconv.ParseFloat(text, 64)
		return f, errors.Join(err, s.bounds(f, ""))
	case "timestamp":
		_, err = time.Parse(time.RFC3339, text)
	case "blob":
		_, err = base64.StdEncoding.DecodeString(text)
	default:
		err = s.text(text)
	}
	return text, err
}

// text checks a string against its enumeration, length and pattern.
func (s *shape) text(text string) error {
	if s.Enum != nil && !slices.Contains(s.Enum, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(s.Enum, ", "))
	}
	if s.Pattern != "" && !regexp.MustCompile("^(?:"+s.Pattern+")$").MatchString(text) {
		return fmt.Errorf("%q does not match %s", text, s.Pattern)
	}
	return s.bounds(float64(utf8.RuneCountInString(text)), "characters")
}

func (s *shape) bounds(n float64, of string) error {
	if s.Min != nil && n < *s.Min || s.Max != nil && n > *s.Max {
		return errors.New(strings.TrimSpace(fmt.Sprintf("%v %s", n, of)) + " is too few or too many")
	}
	return nil
}
