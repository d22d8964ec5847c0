package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
)

// encode encodes in as Do describes. A nil body without a type means no body.
func encode(in any) (body any, contentType string, err error) {
	switch in := in.(type) {
	case nil:
		return nil, "", nil
	case url.Values:
		return []byte(in.Encode()), "application/x-www-form-urlencoded", nil
	case string:
		return []byte(in), "text/plain; charset=utf-8", nil
	}
	b, err := json.Marshal(in)
	return b, "application/json", err
}

// decode decodes an answer into out as Do describes. A text is often the ID of a new thing, which APIs send with quotes
// or without.
func decode(body []byte, out any, mayBeEmpty bool) error {
	trimmed := bytes.TrimSpace(body)
	text, isText := out.(*string)
	switch {
	case len(trimmed) == 0 && (out == nil || mayBeEmpty):
		return nil
	case len(trimmed) == 0:
		return errors.New("it is empty")
	case trimmed[0] == '<': // from a proxy before the API
		return errors.New("it is an HTML page")
	case out == nil:
		return nil
	case isText && trimmed[0] == '"':
		return json.Unmarshal(trimmed, text)
	case isText:
		*text = string(trimmed)
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // a number decoded into an interface keeps its digits
	if err := dec.Decode(out); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return err
		}
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("there is more after its JSON")
	}
	return nil
}
