package runjson

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
)

const hostile = "one\x1b[31m\x00\u202e\u009b2J\xff\r\ntwo"

// fill sets all texts that a value has, puts an element into each of its lists, and sets other values to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(2.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		switch v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(time.Date(2026, 11, 27, 3, 0, 0, 5e8, time.FixedZone("", 3600))))
			return
		case gputrain.Price:
			v.Set(reflect.ValueOf(driver.USD(0.71)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	}
}

func filled() (r observe.Run) {
	fill(reflect.ValueOf(&r).Elem())
	r.Tasks[0].State, r.Tasks[0].Step, r.Tasks[0].StepAt = "started", gputrain.Step{N: 7, Of: 9, Values: map[string]float64{hostile: 1}}, r.At
	r.Tasks[0].Started = r.At.Add(-time.Minute)
	return r
}

func parsed(t *testing.T, v any) (all map[string]any) {
	t.Helper()
	written, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Nothing that a Run has is left out, and each field of the forms is set.
func TestEveryFieldIsWritten(t *testing.T) {
	f := Of(filled())
	var check func(path string, v reflect.Value)
	check = func(path string, v reflect.Value) {
		if v.IsZero() && !slices.Contains([]string{"Run.Pools.SpecError", "Run.Tasks.Stalled", "Run.Nodes.Market"}, path) { // a label, which only a pool sets
			t.Errorf("%s is not set", path)
		}
		switch v.Kind() {
		case reflect.Pointer:
			check(path, v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				check(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice:
			if v.Type() != reflect.TypeFor[json.RawMessage]() {
				for i := range v.Len() {
					check(path, v.Index(i))
				}
			}
		}
	}
	check("Run", reflect.ValueOf(f))
	names := map[reflect.Type]reflect.Type{
		reflect.TypeFor[Pool](): reflect.TypeFor[observe.Pool](), reflect.TypeFor[Task](): reflect.TypeFor[observe.Task](), reflect.TypeFor[Node](): reflect.TypeFor[observe.Node](),
		reflect.TypeFor[Phase](): reflect.TypeFor[observe.Phase](), reflect.TypeFor[Transfer](): reflect.TypeFor[observe.Transfer](), reflect.TypeFor[Failure](): reflect.TypeFor[observe.Failure](),
		reflect.TypeFor[Offer](): reflect.TypeFor[observe.Offer](), reflect.TypeFor[Group](): reflect.TypeFor[observe.Group](), reflect.TypeFor[Attempt](): reflect.TypeFor[observe.Attempt](),
		reflect.TypeFor[Cost](): reflect.TypeFor[gputrain.Cost](), reflect.TypeFor[Host](): reflect.TypeFor[gputrain.HostSample](), reflect.TypeFor[Accelerator](): reflect.TypeFor[gputrain.AcceleratorSample](),
	}
	renamed := map[string]string{"Err": "Error", "BusyTime": "BusySeconds", "Elapsed": "ElapsedSeconds", "Usual": "UsualSeconds", "PerSecond": "StepsPerSecond", "Time": "Seconds", "Known": "PriceKnown"}
	for form, of := range names {
		for _, field := range reflect.VisibleFields(of) {
			name := field.Name
			if other, ok := renamed[name]; ok {
				name = other
			}
			if _, ok := form.FieldByName(name); !ok && !field.Anonymous && field.IsExported() && !(of == reflect.TypeFor[observe.Offer]() && name == "PriceKnown") {
				t.Errorf("%v has no %s", form, name)
			}
		}
	}
}

func TestNoTextControlsATerminal(t *testing.T) {
	messages := map[string]bool{"error": true, "specError": true, "waiting": true, "tail": true, "stack": true}
	texts := 0
	var check func(path, name string, v any, spec bool)
	check = func(path, name string, v any, spec bool) {
		switch v := v.(type) {
		case map[string]any:
			for name, of := range v {
				check(path+" has a name", "", name, spec)
				check(path+"."+name, name, of, spec || name == "spec")
			}
		case []any:
			for _, of := range v {
				check(path, name, of, spec)
			}
		case string:
			texts++
			if strings.ContainsFunc(v, func(r rune) bool {
				return unicode.IsControl(r) && (r != '\n' || !messages[name] && !spec) || unicode.Is(unicode.Bidi_Control, r)
			}) {
				t.Errorf("%s: %q", path, v)
			}
		}
	}
	check("run", "", parsed(t, Of(filled())), false)
	if texts < 300 {
		t.Errorf("there are only %d texts", texts)
	}
}

func TestWhatIsNotKnownIsNull(t *testing.T) {
	r := observe.Run{
		AtMostUSD: 3, SpentUSD: math.NaN(), HourlyUSD: math.Inf(1),
		Pools: []observe.Pool{{Cost: gputrain.Cost{AtMostUSD: 3}}},
		Nodes: []observe.Node{{
			SpentUSD: 3, Usage: []gputrain.AcceleratorSample{{Watts: math.NaN(), Uncorrected: -1, Celsius: 61}}, Load: []observe.Load{{Accelerators: -1, CPU: math.NaN()}},
		}},
		Offers: []observe.Offer{{HourlyUSD: 3}},
	}
	all := parsed(t, Of(r))
	first := func(list string) map[string]any { return all[list].([]any)[0].(map[string]any) }
	node := first("nodes")
	usage, load := node["usage"].([]any)[0].(map[string]any), node["load"].([]any)[0].(map[string]any)
	for what, of := range map[string]map[string]any{
		"atMostUSD": all, "spentUSD": all, "hourlyUSD": all, "watts": usage, "uncorrected": usage, "accelerators": load, "cpu": load,
	} {
		if v, ok := of[what]; !ok || v != nil {
			t.Errorf("%s is %v, %v", what, v, ok)
		}
	}
	for what, of := range map[string]map[string]any{"atMostUSD": first("pools")["cost"].(map[string]any), "spentUSD": node, "hourlyUSD": first("offers")} {
		if v, ok := of[what]; !ok || v != nil {
			t.Errorf("%s of a part is %v, %v", what, v, ok)
		}
	}
	if node["priceKnown"] != false || usage["celsius"] != 61.0 || all["version"] != 1.0 {
		t.Errorf("got %v", all)
	}
	r.Nodes[0].Usage[0].Uncorrected, r.Bounded = 2, true
	all = parsed(t, Of(r))
	if got := first("nodes")["usage"].([]any)[0].(map[string]any)["uncorrected"]; got != 2.0 || all["atMostUSD"] != 3.0 {
		t.Errorf("%v and %v are not as they are known", got, all["atMostUSD"])
	}
}

func TestZeroRun(t *testing.T) {
	all := parsed(t, Of(observe.Run{Tasks: []observe.Task{{}}}))
	lists := []List{Pools, Nodes, Tasks, Groups, Phases, Transfers, Failures, Offers}
	for _, list := range lists {
		if v, ok := all[string(list)].([]any); !ok || len(v) != 0 && list != Tasks {
			t.Errorf("%s is %v", list, all[string(list)])
		}
	}
	for name, v := range all {
		if _, list := v.([]any); list && strings.Count(strings.Join([]string{"", string(Pools), string(Nodes), string(Tasks), string(Groups), string(Phases), string(Transfers), string(Failures), string(Offers), ""}, " "), " "+name+" ") != 1 {
			t.Errorf("the list %s has no List", name)
		}
	}
	task := all["tasks"].([]any)[0].(map[string]any)
	if _, ok := task["lines"].([]any); !ok || task["queued"] != nil || task["step"] != nil {
		t.Errorf("a zero task is %v", task)
	}
	if _, ok := all["began"]; ok {
		t.Error("a zero time is there")
	}
}

func TestSpec(t *testing.T) {
	secret := "planted-secret-7f3a"
	s := gputrain.Spec{
		AnyOf: []accelerators.Accelerator{accelerators.L4(), accelerators.T4()}, Nodes: 3, Tags: map[string]string{"team\u202e": "a\x1bb"},
		Secrets: map[string]gputrain.Secret{"TOKEN": gputrain.Secret(secret), "B": gputrain.Secret(secret)},
	}
	pool := PoolOf(observe.Pool{ID: "p", Spec: &s})
	all := parsed(t, pool)
	spec := all["spec"].(map[string]any)
	names, tags := spec["secretNames"], spec["tags"].(map[string]any)
	if !reflect.DeepEqual(names, []any{"B", "TOKEN"}) || strings.Contains(string(pool.Spec), secret) || spec["nodes"] != 3.0 || pool.Accelerator != "L4 or T4" || len(tags) != 1 || tags["team"] == nil {
		t.Errorf("got %s of %q", pool.Spec, pool.Accelerator)
	}
	if strings.ContainsFunc(tags["team"].(string), unicode.IsControl) {
		t.Errorf("got %q", tags)
	}
	s.BudgetUSD = math.NaN()
	if bad := PoolOf(observe.Pool{Spec: &s}); bad.Spec != nil || bad.SpecError == "" {
		t.Errorf("got %s, %q", bad.Spec, bad.SpecError)
	}
	if cpu := PoolOf(observe.Pool{Spec: &gputrain.Spec{}}); cpu.Accelerator != "cpu" {
		t.Errorf("got %q", cpu.Accelerator)
	}
	for _, bad := range []string{"", "{", "x"} {
		if v, err := Printable([]byte(bad)); err == nil {
			t.Errorf("%q becomes %q", bad, v)
		}
	}
	if v, err := Printable([]byte(`{"n":12345678901234567890,"t":"a<b"}`)); string(v) != `{"n":12345678901234567890,"t":"a<b"}` || err != nil {
		t.Errorf("got %s, %v", v, err)
	}
}

func TestNumbersAndTimes(t *testing.T) {
	for v, want := range map[Number]string{1.5: "1.5", 0: "0", Number(math.Inf(1)): "null", Number(math.Inf(-1)): "null", 1e300: "1e+300", Seconds(90 * time.Second): "90"} {
		if got, err := json.Marshal(v); string(got) != want || err != nil {
			t.Errorf("%v is %s, %v", float64(v), got, err)
		}
	}
	if got, err := json.Marshal(Number(math.NaN())); string(got) != "null" || err != nil {
		t.Errorf("NaN is %s, %v", got, err)
	}
	for want, v := range map[string]time.Time{
		"": {}, "2026-11-27T02:00:00.5Z": time.Date(2026, 11, 27, 3, 0, 0, 5e8, time.FixedZone("", 3600)), "20000-01-01T00:00:00Z": time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got := Time(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
