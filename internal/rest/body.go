package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
// or without. leftOut is as [LeftOut].
func decode(body []byte, out any, mayBeEmpty bool, leftOut func(error) bool) error {
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
	err := decodeJSON(body, out, leftOut)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err == nil || ok || errors.Is(err, errMore) || json.Valid(body) {
		return err
	}
	return fmt.Errorf("it is not JSON: %w", err)
}
