package apifacts

import (
	"slices"
	"strings"
	"testing"
)

// vendor is a made-up description with everything that is dropped, or followed.
const vendor = `
openapi: 3.0.3
info: {title: Acme, contact: {email: a@example.com}}
paths:
  /v1/things/{id}:
    parameters:
      - {name: id, in: path, required: true, description: Which., schema: {type: string}}
    get:
      operationId: getThing
      summary: Gets a thing.
      parameters:
        - {name: wide, in: query, required: false, schema: {type: boolean, default: false}}
        - {name: as, in: query, explode: false, schema: {type: string, enum: [text, json]}}
      responses:
        200: {description: A thing., content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}, example: {id: a}}}}
        404: {$ref: "#/components/responses/Missing"}
    delete:
      responses: {204: {description: It is gone.}}
components:
  responses:
    Missing: {description: It is missing.}
  schemas:
    Thing:
      type: object
      description: A thing.
      additionalProperties: false
      required: [id, description]
      properties:
        id: {type: string, pattern: "^[a-z]+$", readOnly: true, example: abc}
        description: {type: string, nullable: false, maxLength: 9, x-order: 2}
        parent: {$ref: "#/components/schemas/Thing"}
    Other: {type: object}
`

const vendorsFacts = `{
 "components": {
  "responses": {"Missing":{}},
  "schemas": {
   "Thing": {
    "additionalProperties": false,
    "properties": {
     "description": {"maxLength":9,"type":"string"},
     "id": {"pattern":"^[a-z]+$","readOnly":true,"type":"string"},
     "parent": {"$ref":"#/components/schemas/Thing"}
    },
    "required": ["description","id"],
    "type": "object"
   }
  }
 },
 "paths": {
  "/v1/things/{id}": {
   "get": {
    "parameters": [
     {"explode":false,"in":"query","name":"as","schema":{"enum":["json","text"],"type":"string"}},
     {"in":"query","name":"wide","schema":{"type":"boolean"}}
    ],
    "responses": {
     "200": {"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},
     "404": {"$ref":"#/components/responses/Missing"}
    }
   },
   "parameters": [{"in":"path","name":"id","required":true,"schema":{"type":"string"}}]
  }
 }
}
`

func read(t *testing.T, text string) map[string]any {
	t.Helper()
	doc, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// acme is a cloud whose descriptions are these texts.
func acme(onlyHere []string, texts ...string) cloud {
	c := cloud{name: "acme", onlyHere: onlyHere}
	for _, text := range texts {
		c.from = append(c.from, func(t testing.TB) map[string]any { return read(t.(*testing.T), text) })
	}
	return c
}

func TestFactsOfOneCall(t *testing.T) {
	facts, err := acme(nil, vendor).derived(t, read(t, `{"paths": {"/v1/things/{id}": {"get": {}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(format(facts)); got != vendorsFacts {
		t.Errorf("got\n%s", got)
	}
	again, err := take(read(t, vendorsFacts), []string{"GET /v1/things/{id}"})
	if d := diff(facts, again, ""); err != nil || d != nil {
		t.Errorf("the facts of the facts differ: %v %v", d, err)
	}
}

// Every change of the vendor's is reported with its path, and nothing else.
func TestDifferences(t *testing.T) {
	for change, want := range map[string][]string{
		"A thing. -> Some thing.":                      nil,
		"[text, json] -> [json,text]":                  nil,
		"Other: {type: object -> Other: {type: string": nil,
		"x-order: 2 -> default: none":                  nil,
		"maxLength: 9 -> maxLength: 8":                 {"/components/schemas/Thing/properties/description/maxLength: 9 -> 8"},
		"parent: -> mother: ": {
			`/components/schemas/Thing/properties/mother: nothing -> {"$ref":"#/components/schemas/Thing"}`,
			`/components/schemas/Thing/properties/parent: {"$ref":"#/components/schemas/Thing"} -> nothing`,
		},
		"[id, description] -> [id]":                                           {`/components/schemas/Thing/required/description: "description" -> nothing`},
		"[text, json] -> [text, json, xml]":                                   {`/paths//v1/things/{id}/get/parameters/query as/schema/enum/xml: nothing -> "xml"`},
		"wide, in: query, required: false -> wide, in: query, required: true": {"/paths//v1/things/{id}/get/parameters/query wide/required: nothing -> true"},
		"explode: false -> explode: true":                                     {"/paths//v1/things/{id}/get/parameters/query as/explode: false -> true"},
		"nullable: false -> nullable: true":                                   {"/components/schemas/Thing/properties/description/nullable: nothing -> true"},
		"additionalProperties: false -> additionalProperties: {}":             {"/components/schemas/Thing/additionalProperties: false -> {}"},
		"404: {$ref -> 410: {$ref": {
			`/paths//v1/things/{id}/get/responses/404: {"$ref":"#/components/responses/Missing"} -> nothing`,
			`/paths//v1/things/{id}/get/responses/410: nothing -> {"$ref":"#/components/responses/Missing"}`,
		},
		"application/json: -> application/problem+json: ": {
			`/paths//v1/things/{id}/get/responses/200/content/application/json: {"schema":{"$ref":"#/components/schemas/Thing"}} -> nothing`,
			`/paths//v1/things/{id}/get/responses/200/content/application/problem+json: nothing -> {"schema":{"$ref":"#/components/schemas/Thing"}}`,
		},
	} {
		t.Run(change, func(t *testing.T) {
			old, changed, _ := strings.Cut(change, " -> ")
			if !strings.Contains(vendor, old) {
				t.Fatal("this changes nothing")
			}
			has := read(t, vendorsFacts)
			facts, err := acme(nil, strings.ReplaceAll(vendor, old, changed)).derived(t, has)
			if err != nil {
				t.Fatal(err)
			}
			if got := diff(has, facts, ""); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestDerivationComplains(t *testing.T) {
	const onlyHere = `{"paths": {"/v1/new": {"post": {"responses": {"204": {}}}}}}`
	for _, tt := range []struct {
		cloud          cloud
		has, complaint string
	}{
		{acme(nil, vendor), onlyHere, "POST /v1/new is in no file of the vendor's"},
		{acme([]string{"POST /v1/new"}, vendor), onlyHere, ""},
		{acme([]string{"GET /v1/things/{id}"}, vendor), vendorsFacts, "but the vendor describes it"},
		{acme(nil, strings.Replace(vendor, "maxLength: 9", "longest: 9", 1)), vendorsFacts, "/components/schemas/Thing/properties/description/longest: put this key"},
		{acme(nil, strings.Replace(vendor, "schemas/Thing", "schemas/Thin", 1)), vendorsFacts, "refers to #/components/schemas/Thin, which is missing"},
		{acme(nil, strings.Replace(vendor, "#/components/schemas/Thing", "other.yaml#/Thing", 1)), vendorsFacts, "none of the components"},
		{acme(nil, strings.Replace(vendor, "[id, description]", "true", 1)), vendorsFacts, "required is no list"},
		{acme(nil, `{"paths": {"/a": {"get": {"responses": {"200": {"$ref": "#/components/responses/Missing"}}}}},
			"components": {"responses": {"Missing": {"content": {}}}}}`, vendor),
			`{"paths": {"/a": {"get": {}}, "/v1/things/{id}": {"get": {}}}}`, "two of its descriptions disagree on /components/responses/Missing"},
	} {
		_, err := tt.cloud.derived(t, read(t, tt.has))
		if tt.complaint == "" && err != nil || tt.complaint != "" && (err == nil || !strings.Contains(err.Error(), tt.complaint)) {
			t.Errorf("got %v, want %q", err, tt.complaint)
		}
	}
}

func TestFactsOfEC2(t *testing.T) {
	const model = `{"metadata": {"apiVersion": "1", "uid": "x"}, "operations": {
		"Run": {"name": "Run", "http": {"method": "POST"}, "input": {"shape": "In"}}, "Stop": {"name": "Stop"}},
		"shapes": {"In": {"type": "structure", "required": ["B", "A"], "members": {"A": {"shape": "S", "locationName": "a"}}}, "S": {"type": "string", "sensitive": true}, "T": {"type": "string"}}}`
	const want = `{"metadata":{"apiVersion":"1"},"operations":{"Run":{"input":{"shape":"In"}}},"shapes":{"In":{"members":{"A":{"locationName":"a","shape":"S"}},"required":["A","B"],"type":"structure"},"S":{"type":"string"}}}`
	facts, err := acme(nil, model).derived(t, read(t, `{"operations": {"Run": {}}}`))
	if got := text(facts); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}
