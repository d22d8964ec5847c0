package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An oddRow is a row of a list, as clouds' drivers have them.
type oddRow struct {
	ID    string         `json:"id"`
	GPUs  int            `json:"num_gpus"`
	Ports *int           `json:"direct_port_count"`
	Price float64        `json:"price"`
	Where []oddRegion    `json:"regions"`
	By    map[string]int `json:"by"`
	oddBase
}

type oddBase struct {
	Zone string `json:"zone"`
}

type oddRegion struct {
	Name string `json:"name"`
	Free int    `json:"free"`
}

// A price that is a text, or a number: its error is none of encoding/json's.
type oddPrice float64

func (p *oddPrice) UnmarshalJSON(text []byte) error {
	if _, err := fmt.Sscan(strings.Trim(string(text), `"`), (*float64)(p)); err != nil {
		return fmt.Errorf("it is no price: %s", text)
	}
	return nil
}

// A whole number may be written with a fraction or an exponent, in every answer.
func TestWholeNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":"a","num_gpus":1.0,"price":1.50}`:             "a 1 1.5",
		`{"id":"1.0","num_gpus":2e0,"price":2.0}`:            "1.0 2 2",
		`{"id":"say \"3.0\"","num_gpus":4.00,"price":0}`:     `say "3.0" 4 0`,
		`{"id":"b","num_gpus":-0.0,"price":1e-3}`:            "b 0 0.001",
		`{"id":"c","num_gpus":1.5,"price":1}`:                "", // none
		`{"id":"d","num_gpus":9007199254740993.0}`:           "", // not exact
		`{"id":"e","num_gpus":1.0,"by":{"x":2.0,"y":3.0}}`:   "e 1 0",
		`{"id":"f","num_gpus":"1"}`:                          "",
		`{"id":"g","num_gpus":1.0,"regions":[{"free":1.0}]}`: "g 1 0",
	} {
		var out oddRow
		c, _ := scripted(t, Config{Attempts: 1}, replies(200, in))
		err := c.Do(t.Context(), "GET", "/rows", nil, &out)
		got := ""
		if err == nil {
			got = fmt.Sprintf("%s %d %v", out.ID, out.GPUs, out.Price)
		}
		if got != want {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
}

// A row that cannot be read takes nothing from the others, in the context of a list of offers, and is told. In any other it is the
// error of the answer: a machine that is left out may seem gone.
func TestLenient(t *testing.T) {
	type list struct {
		Rows   *[]oddRow             `json:"rows"`
		Named  map[string]oddRow     `json:"named"`
		Prices []map[string]oddPrice `json:"prices"`
		Next   string                `json:"next"`
	}
	const good = `{"id":"a","num_gpus":1,"zone":"z","regions":[{"name":"r","free":2}]}`
	for _, tt := range []struct {
		name, in string
		want     string // IDs of rows, names, prices
		odd      []string
	}{
		{"nothing odd", `{"rows":[` + good + `],"next":"n"}`, "a z r2 / / n", nil},
		{"a fraction", `{"rows":[{"id":"b","direct_port_count":19.5},` + good + `],"next":"n"}`, "a z r2 / / n", []string{`row 0 (id "b"): direct_port_count: `}},
		{"an object for a number", `{"rows":[` + good + `,{"id":7,"price":{}},{"id":"c","price":{}}],"next":"n"}`, "a z r2 / / n", []string{"row 1 (id 7): id: ", `row 2 (id "c"): price: `}},
		{"a row that is none", `{"rows":[3,` + good + `,null],"next":"n"}`, "a z r2,   / / n", []string{"row 0: "}},
		{"a part of a row", `{"rows":[{"id":"a","regions":[{"name":"r","free":2},{"name":"s","free":"many"}]}]}`, "a  r2 / / ", []string{`row 1 (name "s"): free: `}},
		{"a map", `{"named":{"x":{"id":"x"},"y":{"id":"y","num_gpus":1.5}}}`, " / x / ", []string{`row y (id "y"): num_gpus: `}},
		{"an error of its own", `{"prices":[{"a":"1.5","b":"free"}]}`, " /  1.5 / ", []string{"row b: it is no price"}},
		{"what the list is embedded in", `{"rows":[{"id":"b","zone":5},` + good + `]}`, "a z r2 / / ", []string{`row 0 (id "b"): zone: `}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := func(l list) string {
				var rows, names []string
				if l.Rows != nil {
					for _, r := range *l.Rows {
						where := ""
						for _, w := range r.Where {
							where += fmt.Sprint(w.Name, w.Free)
						}
						rows = append(rows, r.ID+" "+r.Zone+" "+where)
					}
				}
				for name := range l.Named {
					names = append(names, name)
				}
				for _, p := range l.Prices {
					for _, usd := range p {
						names = append(names, fmt.Sprint(" ", usd))
					}
				}
				return strings.Join(rows, ",") + " / " + strings.Join(names, ",") + " / " + l.Next
			}
			c := served(t, Config{Attempts: 1}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.in) })
			ctx, odd := Lenient(bounded(t))
			var out list
			if err := c.Do(ctx, "GET", "/rows", nil, &out); err != nil {
				t.Fatal(err)
			}
			squeezed := func(s string) string { return strings.Join(strings.Fields(s), " ") }
			rows, more := odd.Rows()
			if got := text(out); squeezed(got) != squeezed(tt.want) || len(rows) != len(tt.odd) || more != 0 {
				t.Errorf("%q, %v; want %q, %q", got, rows, tt.want, tt.odd)
			}
			for i := range min(len(rows), len(tt.odd)) {
				if !strings.Contains(rows[i].Error(), tt.odd[i]) || !strings.HasPrefix(rows[i].Error(), "/rows: row ") {
					t.Errorf("%v; want %q", rows[i], tt.odd[i])
				}
			}
			if err := c.Do(bounded(t), "GET", "/rows", nil, &out); (err == nil) != (tt.odd == nil) {
				t.Errorf("of machines: %v", err)
			}
			if err := Unmarshal(ctx, []byte(tt.in), &out); err != nil {
				t.Error(err)
			}
		})
	}
	// What is odd beyond rows is the answer's error.
	for _, in := range []string{`{"rows":5}`, `{"next":5}`, `[]`, `{"rows":[`, `{"rows":[]} {}`, `{"rows":[{"id":5}]}`, `{"named":{"a":{"id":5}}}`, `{"rows":[{"id":"a","regions":[{"free":"x"}]}]}`} {
		ctx, odd := Lenient(t.Context())
		var out list
		if err := Unmarshal(ctx, []byte(in), &out); err == nil {
			t.Errorf("%s is read: %+v", in, out)
		}
		if rows, _ := odd.Rows(); rows != nil {
			t.Errorf("%s: %v", in, rows)
		}
	}
	// Many are counted.
	var many []string
	for i := range 101 {
		if i == 100 {
			many = append(many, good)
			break
		}
		many = append(many, fmt.Sprintf(`{"id":%d}`, i))
	}
	ctx, odd := Lenient(t.Context())
	var out []oddRow
	for range 2 { // the same ones again are no more
		if err := Unmarshal(ctx, []byte("["+strings.Join(many, ",")+"]"), &out); err != nil || len(out) != 1 {
			t.Error(out, err)
		}
	}
	if rows, more := odd.Rows(); len(rows) != mostOdd || more < 90 {
		t.Errorf("%d rows and %d more", len(rows), more)
	}
}

// Whatever an answer is, a list's good rows are read alike, and nothing panics.
func FuzzLenient(f *testing.F) {
	f.Add(`[{"id":"a","num_gpus":1.5},{"id":"b","num_gpus":2.0}]`)
	f.Add(`[{"regions":[{"free":"x"}]},7,"s",null,{"by":{"a":[]}}]`)
	f.Fuzz(func(t *testing.T, in string) {
		ctx, odd := Lenient(t.Context())
		var out []oddRow
		err := Unmarshal(ctx, []byte(in), &out)
		if err == nil && !json.Valid([]byte(in)) {
			t.Errorf("%q is read as %+v", in, out)
		}
		if rows, more := odd.Rows(); err != nil && len(rows)+more > 0 {
			t.Errorf("%q: %v, and rows %v", in, err, rows)
		}
	})
}
