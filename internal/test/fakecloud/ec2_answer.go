package fakecloud

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Encode encodes the answer as XML by the action's output shape. Its Body is a struct or map with the SDKs' names. An
// unknown name is an error. Nil answers an action without output. Text is sent unchanged.
func (e *ec2) Encode(c *Call, a Answer) (Answer, error) {
	switch a.Body.(type) {
	case string, []byte:
		if !a.Undescribed && a.Status < 300 {
			return a, errors.New("the answer is text: give its values, so that they can be checked")
		}
		return a.encode()
	}
	generic, err := generic(a.Body)
	if err != nil {
		return a, err
	}
	x := xmlWriter{model: e}
	fmt.Fprintf(&x.out, "%s<%sResponse xmlns=%q><requestId>req-%d</requestId>", xml.Header, c.Op, e.model.Metadata.XMLNamespace, c.N)
	if out := e.model.Operations[c.Op].Output; out != nil {
		x.members(generic, e.model.Shapes[out.Shape], c.Op)
	} else if generic != nil {
		return a, fmt.Errorf("%s has no output", c.Op)
	} else {
		x.out.WriteString("<return>true</return>")
	}
	fmt.Fprintf(&x.out, "</%sResponse>", c.Op)
	a.Body = x.out.String()
	if a.Header.Get("Content-Type") == "" {
		a = a.With("Content-Type", "text/xml;charset=UTF-8")
	}
	a, err = a.encode()
	return a, errors.Join(append(x.errs, err)...)
}

// EC2Error returns EC2's answer to a call that fails.
func EC2Error(status int, code, message string) Answer {
	var b strings.Builder
	b.WriteString(xml.Header + "<Response><Errors><Error><Code>")
	xml.EscapeText(&b, []byte(code))
	b.WriteString("</Code><Message>")
	xml.EscapeText(&b, []byte(message))
	b.WriteString("</Message></Error></Errors><RequestID>req-error</RequestID></Response>")
	return Reply(status, b.String()).With("Content-Type", "text/xml;charset=UTF-8")
}

// generic converts a value to what decoding its JSON gives, with numbers as json.Number.
func generic(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decodeJSON(b)
}

type xmlWriter struct {
	model *ec2
	out   strings.Builder
	errs  []error
}

func (x *xmlWriter) complain(at, format string, args ...any) {
	x.errs = append(x.errs, fmt.Errorf("%s: "+format, append([]any{at}, args...)...))
}

func (x *xmlWriter) members(v any, s *shape, at string) {
	m, ok := v.(map[string]any)
	if !ok {
		x.complain(at, "%v is not a structure", v)
	}
	for _, name := range keys(m) {
		ref, ok := s.Members[name]
		switch {
		case !ok:
			x.complain(at+"."+name, "unknown")
		case m[name] != nil:
			tag := name
			if ref.LocationName != "" {
				tag = ref.LocationName
			}
			x.element(tag, m[name], ref, at+"."+name)
		}
	}
}

func (x *xmlWriter) element(tag string, v any, ref shapeRef, at string) {
	s := x.model.model.Shapes[ref.Shape]
	x.out.WriteString("<" + tag + ">")
	switch s.Type {
	case "structure":
		x.members(v, s, at)
	case "list":
		list, ok := v.([]any)
		if !ok {
			x.complain(at, "%v is not a list", v)
		}
		item := "item"
		if s.Member.LocationName != "" {
			item = s.Member.LocationName
		}
		for i, v := range list {
			x.element(item, v, s.Member, fmt.Sprintf("%s.%d", at, i+1))
		}
	default:
		text := fmt.Sprint(v)
		if err := s.holds(v); err != nil {
			x.complain(at, "%w", err)
		}
		xml.EscapeText(&x.out, []byte(text))
	}
	x.out.WriteString("</" + tag + ">")
}

// holds returns why a value does not fit a scalar shape.
func (s *shape) holds(v any) error {
	_, isNumber := v.(json.Number)
	_, isBool := v.(bool)
	numeric := slices.Contains([]string{"integer", "long", "float", "double"}, s.Type)
	if isNumber != numeric || isBool != (s.Type == "boolean") {
		return fmt.Errorf("%v is not of type %s", v, s.Type)
	}
	_, err := s.scalar(fmt.Sprint(v))
	return err
}
