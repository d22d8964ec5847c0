package camel

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestName(t *testing.T) {
	for field, want := range map[string]string{
		"ID": "id", "HourlyUSD": "hourlyUSD", "VCPUs": "vcpus", "OSName": "osName", "Nodes": "nodes", "GPUs": "gpus", "MemoryGiB": "memoryGiB", "TTL": "ttl", "A": "a", "CPUsPerGPU": "cpusPerGPU",
	} {
		if got := Name(field); got != want {
			t.Errorf("%s: %s", field, got)
		}
	}
}

type inner struct {
	HourlyUSD float64
	Tagged    string `json:"tAgged,omitempty"`
	At        time.Time
}

type outer struct {
	inner
	ID      string
	All     []inner
	One     *inner
	None    *inner
	ByKey   map[string]inner
	Keys    map[string]string
	Skipped int `json:"-"`
	Any     any
}

// What is written is read back by encoding/json, also by a program that has known only the fields' own names.
func TestMarshal(t *testing.T) {
	at := time.Date(2026, 11, 29, 1, 2, 3, 4, time.UTC)
	v := outer{
		inner: inner{HourlyUSD: 1.5, At: at}, ID: "x", All: []inner{{Tagged: "t"}}, One: &inner{HourlyUSD: 1e300}, ByKey: map[string]inner{"Key ID": {HourlyUSD: 2}},
		Keys: map[string]string{"KEY": "Value"}, Any: "Any",
	}
	text, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"all":[{"at":"0001-01-01T00:00:00Z","hourlyUSD":0,"tAgged":"t"}],"any":"Any","at":"2026-11-29T01:02:03.000000004Z","byKey":{"Key ID":{"at":"0001-01-01T00:00:00Z","hourlyUSD":2}},"hourlyUSD":1.5,"id":"x","keys":{"KEY":"Value"},"none":null,"one":{"at":"0001-01-01T00:00:00Z","hourlyUSD":1e+300}}`
	if string(text) != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	var back outer
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function is no JSON")
	}
}
