package fakecloud

import (
	"strings"
	"testing"
)

const gceFile = "../../../providers/gcp/testdata/api.json"

func TestGoogleRequests(t *testing.T) {
	const at = "/compute/v1/projects/p1/zones/us-central1-a/instances"
	const node = `{"name":"n0","machineType":"zones/us-central1-a/machineTypes/g2-standard-4","labels":{"a":"b"},"disks":[{"boot":true,"initializeParams":{"diskSizeGb":"50"}}]}`
	change := func(old, new string) string { return strings.Replace(node, old, new, 1) }
	types := strings.Replace(at, "instances", "machineTypes", 1)
	try(t, OpenAPI(t, gceFile), []trial{
		{"good", "POST", at + "?requestId=r1&alt=json", node, ""},
		{"misspelt field", "POST", at, change("machineType", "machinetype"), "/machinetype: unknown field"},
		{"misspelt field within", "POST", at, change("initializeParams", "initParams"), "/initParams: unknown field"},
		{"field of the service's", "POST", at, change(`"name"`, `"status":"RUNNING","name"`), "/status: unknown field"},
		{"required for this method", "POST", at, change(`"name":"n0",`, ""), "name"},
		{"int64 is text", "POST", at, change(`"50"`, `50`), "/disks/0/initializeParams/diskSizeGb"},
		{"int64 is a number", "POST", at, change(`"50"`, `"much"`), "does not match pattern"},
		{"pattern is for the whole name", "POST", at, change("n0", "N0"), "/name"},
		{"wrong enum", "POST", at, change(`"labels"`, `"scheduling":{"provisioningModel":"CHEAP"},"labels"`), "provisioningModel"},
		{"label is text", "POST", at, change(`"b"`, `1`), "/labels/a"},
		{"unknown query parameter", "POST", at + "?requestid=r1", node, "unknown query parameter requestid"},
		{"no JSON", "POST", at, "{", "body"},
		{"no body", "POST", at, "", "missing"},
		{"wrong project", "GET", strings.Replace(types, "p1", "P_1", 1), "", "parameter project"},
		{"good list", "GET", types + "?maxResults=10&filter=labels.a%3Db", "", ""},
		{"wrong number", "GET", types + "?maxResults=ten", "", "parameter maxResults"},
		{"number below zero", "GET", types + "?maxResults=-1", "", "parameter maxResults"},
		{"twice", "GET", types + "?pageToken=a&pageToken=b", "", "2 times"},
		{"body where there is none", "GET", types, node, "the operation has no body"},
		{"unknown path", "GET", "/compute/v1/projects/p1/zones/z/instancez", "", "unknown path"},
		{"other API", "GET", "/compute/v2/projects/p1/zones/z/instances", "", "unknown path"},
	})
}

func TestGoogleAnswers(t *testing.T) {
	type object = map[string]any
	answers(t, OpenAPI(t, gceFile), trial{method: "GET", path: "/compute/v1/projects/p1/zones/z/instances/n0"}, map[string]struct {
		answer    Answer
		complaint string
	}{
		"good":       {Reply(200, object{"name": "n0", "id": "123", "status": "RUNNING"}), ""},
		"invented":   {Reply(200, object{"name": "n0", "state": "RUNNING"}), "/state: unknown field"},
		"number":     {Reply(200, object{"id": 123}), "/id"},
		"error":      {GoogleError(404, "notFound", "no n0"), ""},
		"odd error":  {Reply(404, object{"message": "no n0"}), "missing property 'error'"},
		"known HTML": {Undescribed(502, "<html>"), ""},
	})
}
