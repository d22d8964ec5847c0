package fakecloud

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// small is a description with one example of every feature that needs special treatment.
const small = `
openapi: 3.0.3
paths:
  /v1/things/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer}}
    get:
      parameters:
        - {name: tags, in: query, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: tag, in: query, schema: {type: array, items: {type: string, maxLength: 3}}}
        - {name: filter, in: query, content: {application/json: {schema: {type: object, properties: {a: {type: string}}}}}}
        - {name: version, in: query, schema: {type: string}}
        - {name: X-Project, in: header, required: true, schema: {type: string, enum: [p1]}}
      responses:
        "200": {description: ok, content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}
        4XX: {description: wrong, content: {text/plain: {schema: {type: string, maxLength: 20}}}}
        default: {$ref: "#/components/responses/Failed"}
    put:
      requestBody:
        required: true
        content:
          application/json: {schema: {$ref: "#/components/schemas/Thing"}}
          application/x-www-form-urlencoded: {schema: {type: object, properties: {size: {type: integer}}}}
          text/*: {}
      responses: {"204": {description: ok}}
  /v1/things/new:
    get: {responses: {"204": {description: ok}}}
components:
  responses:
    Failed: {description: failed, content: {application/problem+json: {schema: {type: object, properties: {title: {type: string}}}}}}
  schemas:
    Named: {type: object, required: [name], properties: {name: {type: string, pattern: "^(?!x)."}}}
    Any: {description: whatever}
    Thing:
      allOf:
        - $ref: "#/components/schemas/Named"
        - type: object
          required: [id, secret]
          properties:
            id: {type: string, readOnly: true}
            secret: {type: string, writeOnly: true}
            size: {type: integer, minimum: 0, exclusiveMinimum: true, nullable: true}
            kind: {type: string, enum: [a, b], nullable: true}
            parent: {nullable: true, allOf: [{$ref: "#/components/schemas/Named"}]}
            env: {type: object}
            none: {type: object, properties: {}}
            extra: {$ref: "#/components/schemas/Any"}
            labels: {type: object, additionalProperties: {type: string}}
            disk:
              oneOf:
                - {type: object, properties: {size: {type: integer}}}
                - {type: object, properties: {volume: {type: string}}}
`

func smallAPI(t *testing.T) *openAPI {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(small), &doc); err != nil {
		t.Fatal(err)
	}
	o, err := newOpenAPI(object(doc))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestStrictBodies(t *testing.T) {
	var trials []trial
	for body, complaint := range map[string]string{
		`{"name":"n","secret":"s"}`:                                  "",
		`{"name":"n","secret":"s","size":null,"kind":null}`:          "",
		`{"name":"n","secret":"s","parent":null}`:                    "",
		`{"name":"n","secret":"s","parent":{"name":"p"}}`:            "",
		`{"name":"n","secret":"s","env":{"A":1},"none":{"a":1}}`:     "",
		`{"name":"n","secret":"s","extra":{"a":[1]}}`:                "",
		`{"name":"n","secret":"s","labels":{"any":"x"}}`:             "",
		`{"name":"n","secret":"s","disk":{"volume":"v"}}`:            "",
		`{"name":"n","secret":"s","naem":"x"}`:                       "/naem: unknown field",
		`{"name":"n","secret":"s","id":"i"}`:                         "/id: unknown field",
		`{"name":"n"}`:                                               "secret",
		`{"naem":"n","secret":"s"}`:                                  "/naem: unknown field",
		`{"name":"n","secret":"s","size":0}`:                         "/size",
		`{"name":"n","secret":"s","kind":"c"}`:                       "/kind",
		`{"name":"n","secret":"s","parent":{"name":"p","nmae":"q"}}`: "/parent/nmae: unknown field",
		`{"name":"n","secret":"s","labels":{"any":1}}`:               "/labels/any",
		`{"name":"n","secret":"s","disk":{"volume":"v","size":1}}`:   "/disk",
		`{"name":"n","secret":"s","disk":{"volum":"v"}}`:             "/disk/volum: unknown field",
		`["name"]`: "want object",
	} {
		trials = append(trials, trial{body, "PUT", "/v1/things/1", body, complaint})
	}
	try(t, smallAPI(t), trials)
}

func TestParameters(t *testing.T) {
	o := smallAPI(t)
	for path, complaint := range map[string]string{
		"/v1/things/1": "", "/v1/things/one": "path parameter id", "/v1/things/new": "",
		"/v1/things/1?tags=1,2": "", "/v1/things/1?tags=1,x": "query parameter tags",
		"/v1/things/1?tag=a&tag=b": "", "/v1/things/1?tag=long": "query parameter tag",
		"/v1/things/1?filter=%7B%22a%22:%22b%22%7D": "", "/v1/things/1?filter=%7B%22b%22:1%7D": "/b: unknown field",
		"/v1/things/1?version=12": "", "/v1/things/1?version=1&version=2": "2 times",
		"/things/1": "unknown path", "/v1/things/1/2": "unknown path",
	} {
		c := trial{method: "GET", path: path}.call(t)
		c.Header.Set("X-Project", "p1")
		err := o.Find(c)
		if err == nil {
			err = o.Check(c)
		}
		t.Run(path, func(t *testing.T) { expect(t, err, complaint) })
	}
	c := trial{method: "GET", path: "/v1/things/1"}.call(t)
	o.Find(c)
	expect(t, o.Check(c), "header parameter X-Project is missing")
	c.Header.Set("X-Project", "p2")
	expect(t, o.Check(c), "header parameter X-Project")
}

func TestBodyTypes(t *testing.T) {
	o := smallAPI(t)
	for _, tr := range []struct{ kind, body, complaint string }{
		{"application/x-www-form-urlencoded", "size=3", ""},
		{"application/x-www-form-urlencoded", "size=x", "/size"},
		{"application/x-www-form-urlencoded", "sice=3", "/sice: unknown field"},
		{"text/x-shellscript", "#!/bin/sh", ""},
		{"application/xml", "<a/>", "Content-Type application/xml is not one of"},
		{"", "x", "Content-Type"},
		{"application/json", "", "missing"},
	} {
		c := trial{method: "PUT", path: "/v1/things/1", body: tr.body}.call(t)
		c.Header.Set("Content-Type", tr.kind)
		if err := o.Find(c); err != nil {
			t.Fatal(err)
		}
		t.Run(tr.kind+" "+tr.body, func(t *testing.T) { expect(t, o.Check(c), tr.complaint) })
	}
}

func TestStrictAnswers(t *testing.T) {
	type object = map[string]any
	answers(t, smallAPI(t), trial{method: "GET", path: "/v1/things/1"}, map[string]struct {
		answer    Answer
		complaint string
	}{
		"good":               {Reply(200, object{"id": "i", "name": "n"}), ""},
		"secret":             {Reply(200, object{"id": "i", "name": "n", "secret": "s"}), "/secret: unknown field"},
		"by class":           {Reply(409, "busy"), ""},
		"by class, too long": {Reply(409, "busy for ever and ever and ever"), "maxLength"},
		"by default":         {Reply(500, object{"title": "t"}), ""},
		"by default, wrong":  {Reply(500, object{"titel": "t"}), "/titel: unknown field"},
		"other type":         {Reply(200, "n"), "Content-Type text/plain is not one of application/json"},
		"no JSON":            {Reply(200, []byte("{")).With("Content-Type", "application/json"), "body"},
	})
}

func TestReferences(t *testing.T) {
	for ref, complaint := range map[string]string{
		"#/components/responses/None":  "has no target",
		"other.yaml#/responses/Failed": "leads out of the file",
		"#/components/responses/Loop":  "in a circle",
	} {
		o := smallAPI(t)
		object(object(o.doc["components"])["responses"])["Loop"] = map[string]any{"$ref": "#/components/responses/Loop"}
		_, _, err := o.resolve(map[string]any{"$ref": ref}, nil)
		expect(t, err, complaint)
	}
}
