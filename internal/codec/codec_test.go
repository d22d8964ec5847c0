package codec

import (
	"bytes"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"
	"unsafe"
)

type inner struct {
	Name string
	W    []float32
}

type tree struct {
	Value float64
	Bulk  []int32
	Kids  []*tree
}

type tagged struct {
	A int    `json:"a"`
	B string `cbor:"bee,omitempty" json:"b"`
	C []byte `json:"-"`
	D []int16
	e int
}

type everything struct {
	Bool    bool
	I8      int8
	I64     int64
	U64     uint64
	F32     float32
	F64     float64
	Str     string
	Bytes   []byte
	F32s    []float32
	F64s    []float64
	I8s     []int8
	I16s    []int16
	I32s    []int32
	I64s    []int64
	U16s    []uint16
	U32s    []uint32
	U64s    []uint64
	Ints    []int
	Strs    []string
	Matrix  [][]float64
	Weights map[string][]float32
	ByInt   map[int]inner
	Struct  inner
	Ptr     *inner
	Array   [3]float64
	Hash    [4]byte
}

// roundTrip returns v after encoding and decoding.
func roundTrip[T any](t *testing.T, v T) T {
	t.Helper()
	data, err := Marshal(v)
	if err != nil {
		t.Fatalf("Marshal(%#v): %v", v, err)
	}
	var got T
	if err := Unmarshal(data, &got); err != nil {
		t.Fatalf("Unmarshal(%#v): %v", v, err)
	}
	return got
}

func same[T any](t *testing.T, v T) {
	t.Helper()
	if got := roundTrip(t, v); !reflect.DeepEqual(got, v) {
		t.Errorf("sent %#v, got %#v", v, got)
	}
}

func TestRoundTripProperty(t *testing.T) {
	holds := func(v everything) bool {
		data, err := Marshal(v)
		if err != nil {
			t.Log(err)
			return false
		}
		var got everything
		if err := Unmarshal(data, &got); err != nil {
			t.Log(err)
			return false
		}
		return reflect.DeepEqual(got, v)
	}
	if err := quick.Check(holds, &quick.Config{MaxCount: 300}); err != nil {
		t.Error(err)
	}
}

func TestRoundTrip(t *testing.T) {
	same(t, struct{}{})
	same(t, "not \xff\xfe UTF-8")
	same(t, math.Inf(-1))
	same(t, math.Copysign(0, -1))
	same(t, float32(1)/3)
	same(t, uint64(math.MaxUint64))
	same(t, everything{})
	same(t, map[[2]int]string{{1, 2}: "x"})
	same(t, map[netip.Addr]inner{netip.MustParseAddr("10.0.0.1"): {W: []float32{1}}})
	same(t, *big.NewInt(0).Lsh(big.NewInt(7), 100))
	same(t, netip.MustParseAddrPort("[::1]:22"))
	same(t, tree{Value: 1, Kids: []*tree{{Bulk: []int32{1, 2}}, nil, {Kids: []*tree{{Value: 2}}}}})
	same(t, (*tree)(nil))
	same(t, [][]float64{nil, {}, {1, 2}})
	same(t, make([]byte, 1<<20))
	same(t, 3*time.Second)
}

func TestNilAndEmptyAreToldApart(t *testing.T) {
	type slices struct {
		B []byte
		F []float64
		S []string
		M map[string]int
		W map[string][]float32
	}
	same(t, slices{})
	same(t, slices{B: []byte{}, F: []float64{}, S: []string{}, M: map[string]int{}, W: map[string][]float32{}})
	same(t, []float32(nil))
	same(t, []float32{})
}

func TestNaN(t *testing.T) {
	got := roundTrip(t, struct {
		A float64
		B []float64
		C any
	}{math.NaN(), []float64{math.NaN()}, math.NaN()})
	if c, ok := got.C.(float64); !math.IsNaN(got.A) || !math.IsNaN(got.B[0]) || !ok || !math.IsNaN(c) {
		t.Errorf("got %v", got)
	}
}

func TestTags(t *testing.T) {
	got := roundTrip(t, tagged{A: 1, B: "x", C: []byte("kept here"), D: []int16{-3}, e: 5})
	if want := (tagged{A: 1, B: "x", D: []int16{-3}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTime(t *testing.T) {
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.FixedZone("", 5*3600+30*60))
	got := roundTrip(t, at)
	if !got.Equal(at) || got.Format(time.RFC3339Nano) != at.Format(time.RFC3339Nano) {
		t.Errorf("sent %v, got %v", at, got)
	}
	if got := roundTrip(t, any(at)); !got.(time.Time).Equal(at) {
		t.Errorf("as an any: got %v", got)
	}
	if got := roundTrip(t, time.Time{}); !got.IsZero() {
		t.Errorf("zero: got %v", got)
	}
	for _, odd := range []time.Time{at.In(time.FixedZone("LMT", 1172)), at.AddDate(9000, 0, 0)} {
		if _, err := Marshal(map[string]time.Time{"t": odd}); err == nil || !strings.Contains(err.Error(), "UTC()") {
			t.Errorf("%v: err = %v", odd, err)
		}
	}
}

func TestInterfacesHoldGenericValues(t *testing.T) {
	sent := map[string]any{
		"nil": nil, "bool": true, "int": 7, "uint": uint8(7), "float": float32(0.5), "string": "s",
		"bytes": []byte{1}, "slice": []int{1, 2}, "floats": []float64{1}, "map": map[string]int{"x": 1},
		"struct": struct{ X any }{3}, "big": uint64(math.MaxUint64),
	}
	want := map[string]any{
		"nil": nil, "bool": true, "int": int64(7), "uint": int64(7), "float": 0.5, "string": "s",
		"bytes": []byte{1}, "slice": []any{int64(1), int64(2)}, "floats": []any{1.0}, "map": map[string]any{"x": int64(1)},
		"struct": map[string]any{"X": int64(3)}, "big": *new(big.Int).SetUint64(math.MaxUint64),
	}
	if got := roundTrip(t, sent); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestRefusedTypes(t *testing.T) {
	type hooks struct{ OnEnd []func() }
	type settings struct{ Model map[string]hooks }
	type oneWay struct{ M onlyText }
	type cyclic struct {
		Next *cyclic
		C    chan int
	}
	for _, tt := range []struct {
		v         any
		path, why string
	}{
		{settings{}, "codec.settings.Model[].OnEnd[]", "func()"},
		{cyclic{}, "codec.cyclic.C", "chan int"},
		{struct{ P unsafe.Pointer }{}, ".P", "unsafe.Pointer"},
		{struct{ E error }{}, ".E", "concrete type"},
		{map[*int]int{}, "map[*int]int", "pointers"},
		{complex(1, 1), "complex128", "two parts"},
		{struct{ x int }{1}, "struct { x int }", "exported"},
		{struct{ T time.Timer }{}, "C", "chan"},
		{oneWay{}, ".M", "MarshalText but not UnmarshalText"},
		{struct{ *inner }{}, "inner", "embed the value"},
	} {
		err := Check(reflect.TypeOf(tt.v))
		if err == nil || !strings.Contains(err.Error(), tt.path) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("Check(%T) = %v, want the path %q and %q", tt.v, err, tt.path, tt.why)
		}
		if _, err := Marshal(map[string]any{"k": tt.v}); err == nil {
			t.Errorf("Marshal of a %T in an interface: no error", tt.v)
		}
	}
	for _, v := range []any{tree{}, everything{}, time.Time{}, struct {
		C chan int `cbor:"-"`
	}{}, map[string]any{}} {
		if err := Check(reflect.TypeOf(v)); err != nil {
			t.Errorf("Check(%T) = %v", v, err)
		}
	}
}

type onlyText struct{ A int }

func (onlyText) MarshalText() ([]byte, error) { return nil, nil }

func TestCyclicValuesAreRefused(t *testing.T) {
	loop := &tree{}
	loop.Kids = []*tree{loop}
	anyLoop := map[string]any{}
	anyLoop["self"] = anyLoop
	for _, v := range []any{loop, anyLoop} {
		if _, err := Marshal(v); err == nil || !strings.Contains(err.Error(), "contain itself") {
			t.Errorf("%T: err = %v", v, err)
		}
	}
	deep := &tree{}
	for range 1000 {
		deep = &tree{Kids: []*tree{deep}}
	}
	same(t, deep)
}

func TestMapInInterfaceNeedsStringKeys(t *testing.T) {
	if _, err := Marshal(map[string]any{"m": map[int]int{1: 2}}); err == nil || !strings.Contains(err.Error(), "string keys") {
		t.Errorf("err = %v", err)
	}
}

func TestUnmarshalErrors(t *testing.T) {
	floats := []byte("\xd8\x56\x50\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00@")
	odd := append([]byte(nil), floats[:len(floats)-1]...)
	odd[2] = 0x4f // 15 bytes
	part := func(n byte) string { return "\xda\x67\x70\x70\x61" + string(n) }
	body := func(head string, parts ...string) Body {
		b := Body{Head: []byte(head)}
		for _, p := range parts {
			b.Parts = append(b.Parts, []byte(p))
		}
		return b
	}
	head := func(b []byte) Body { return Body{Head: b} }
	for name, try := range map[string]func() error{
		"not a pointer":   func() error { return Unmarshal(head(floats), 1) },
		"empty":           func() error { return Unmarshal(Body{}, new(int)) },
		"cut":             func() error { return Unmarshal(head(floats[:5]), new([]float64)) },
		"trailing":        func() error { return Unmarshal(head(append(floats[:len(floats):len(floats)], 0)), new([]float64)) },
		"other element":   func() error { return Unmarshal(head(floats), new([]float32)) },
		"odd length":      func() error { return Unmarshal(head(odd), new([]float64)) },
		"unknown field":   func() error { return Unmarshal(body("\xa1\x61x\x01"), new(inner)) },
		"unknown field 2": func() error { return Unmarshal(body("\xa1\x61x\x01"), new(struct{ A int })) },
		"array length":    func() error { return Unmarshal(body("\x81\xf6"), new([2][]byte)) },

		"no such part":       func() error { return Unmarshal(body(part(0)), new([]byte)) },
		"part left over":     func() error { return Unmarshal(body("\xf6", "x"), new([]byte)) },
		"part for no slice":  func() error { return Unmarshal(body(part(0), "x"), new(int)) },
		"part twice":         func() error { return Unmarshal(body("\x82"+part(0)+part(0), "x"), new([][]byte)) },
		"parts out of order": func() error { return Unmarshal(body("\x82"+part(1)+part(0), "x", "y"), new([][]byte)) },
		"odd part":           func() error { return Unmarshal(body("\xd8\x56"+part(0), "123456789"), new([]float64)) },
		"part by text":       func() error { return Unmarshal(body("\xda\x67\x70\x70\x61\x61x", "x"), new([]byte)) },
		"other tag":          func() error { return Unmarshal(body("\xc1\x00", "x"), new([]byte)) },
	} {
		if err := try(); err == nil || !strings.HasPrefix(err.Error(), "decode ") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func TestBulkIsCompact(t *testing.T) {
	data, err := Marshal(inner{Name: "w", W: make([]float32, 1000)})
	if err != nil || data.Size() > 4100 {
		t.Errorf("%d bytes for 4000 of floats, err = %v", data.Size(), err)
	}
}

type (
	weights []float32
	celsius float64
	layer   struct {
		weights         // embedded, not exported, and no struct: not sent
		Bias    weights `cbor:"b,omitempty"`
	}
	// Named is embedded below.
	Named struct{ Tensor []uint16 }
	model struct {
		Named
		Layers  [2]layer
		Seconds []time.Duration
		Temps   []celsius
		ByName  map[string][]int
		Raw     *[]byte
		Small   []int8
	}
)

// sequence returns n numbers. They repeat after 120.
func sequence[S ~[]E, E ~int | ~int8 | ~int64 | ~uint8 | ~uint16 | ~float32 | ~float64](n int) S {
	s := make(S, n)
	for i := range s {
		s[i] = E(i % 120)
	}
	return s
}

// Large slices anywhere in a value are parts of the body, without a copy: parts alias the sender's
// memory, and decoded slices alias the parts.
func TestLargeSlicesAreNotCopied(t *testing.T) {
	const n = MinPart
	raw := sequence[[]byte](n)
	v := model{
		Named: Named{sequence[[]uint16](n)}, Layers: [2]layer{{Bias: sequence[weights](n)}, {Bias: weights{}}},
		Seconds: sequence[[]time.Duration](n), Temps: sequence[[]celsius](n), ByName: map[string][]int{"a": sequence[[]int](n)},
		Raw: &raw, Small: sequence[[]int8](n - 1),
	}
	b, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Parts) != 6 || len(b.Head) > n+1000 {
		t.Fatalf("%d parts and a head of %d bytes", len(b.Parts), len(b.Head))
	}
	raw[0] = 77
	if last := b.Parts[5]; &last[0] != &raw[0] {
		t.Error("the part is a copy")
	}
	var got model
	if err := Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, v) {
		t.Error("the value has changed on the way")
	}
	if &(*got.Raw)[0] != &raw[0] {
		t.Error("the slice is a copy of the part")
	}
	same(t, v)
	if got := roundTrip(t, layer{weights: weights{1}, Bias: weights{2}}); got.weights != nil || got.Bias[0] != 2 {
		t.Errorf("an embedded unexported field was sent: %v", got)
	}
}

// A part that is not aligned for its elements is copied.
func TestPartsOutOfPlace(t *testing.T) {
	want := sequence[[]float64](n64)
	b, err := Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	b.Parts[0] = append(make([]byte, 1, 1+len(b.Parts[0])), b.Parts[0]...)[1:]
	var got []float64
	if err := Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d numbers, %v", len(got), err)
	}
}

const n64 = MinPart / 8

// On a platform whose byte order is not that of the wire, elements are converted.
func TestConvertedElements(t *testing.T) {
	for _, v := range []any{
		[]int{-1, 2, math.MaxInt}, []int8{-1, 1}, []int16{-300, 300}, []int32{-70000}, []int64{math.MinInt64}, []uint{1, math.MaxUint},
		[]uint16{1, 65535}, []uint32{1 << 31}, []uint64{1 << 63}, []float32{-1.5, float32(math.Inf(1))}, []float64{-1.5, math.MaxFloat64},
	} {
		rv := reflect.ValueOf(v)
		b, ok := bulkOf(rv.Type())
		if !ok {
			t.Fatalf("%T has no bulk encoding", v)
		}
		b.native = false
		sent := b.bytes(rv)
		if want := memory(rv, b.width); littleEndian && string(sent) != string(want) {
			t.Errorf("%v: sent %x, want %x", v, sent, want)
		}
		got := reflect.New(rv.Type()).Elem()
		if err := b.take(sent, got); err != nil || !reflect.DeepEqual(got.Interface(), v) {
			t.Errorf("%v arrived as %v, %v", v, got, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, v := range []any{
		everything{F64s: []float64{1}, Weights: map[string][]float32{"a": {1}}, ByInt: map[int]inner{1: {}}, Ptr: &inner{}},
		tree{Kids: []*tree{{Bulk: []int32{1}}}}, map[string]any{"a": []any{1, "x", nil, 1.5}}, []float32{1, 2}, time.Now(), "s", -1,
	} {
		data, err := Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data.Head, []byte(nil), []byte(nil))
	}
	f.Add([]byte{0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte(nil), []byte(nil))
	f.Add([]byte{0xd8, 86, 0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte(nil), []byte(nil))
	two, _ := Marshal([][]float32{sequence[[]float32](MinPart), sequence[[]float32](MinPart)})
	f.Add(two.Head, []byte("12345678"), []byte("1234"))
	f.Add(two.Head, []byte("1234567"), []byte{})
	deep := bytes.Repeat([]byte{0xda, 0x67, 0x70, 0x70, 0x61}, 100)
	f.Add(append(deep, 0), []byte("1234"), []byte("1234"))
	f.Fuzz(func(t *testing.T, head, one, two []byte) {
		data := Body{Head: head}
		for _, p := range [][]byte{one, two} {
			if p != nil {
				data.Parts = append(data.Parts, p)
			}
		}
		for _, into := range []any{
			new(everything), new(tree), new(any), new(map[string]any), new([]float32), new(time.Time),
			new([]byte), new(map[any][]float64), new(tagged), new([][]float32), new(model), new(big.Int), new(netip.Addr), new([4]byte),
		} {
			if Unmarshal(data, into) != nil {
				continue
			}
			// A decoded value can be encoded and decoded again.
			v := reflect.ValueOf(into).Elem().Interface()
			if again, err := Marshal(v); err == nil {
				if err := Unmarshal(again, reflect.New(reflect.TypeOf(into).Elem()).Interface()); err != nil {
					t.Fatalf("%T: %x was decoded and encoded as %x, which cannot be decoded: %v", into, head, again.Head, err)
				}
			}
		}
	})
}

func BenchmarkFloat64s(b *testing.B) {
	v := struct{ Values []float64 }{make([]float64, 1<<20)}
	b.SetBytes(8 << 20)
	b.Run("marshal", func(b *testing.B) {
		for b.Loop() {
			if _, err := Marshal(v); err != nil {
				b.Fatal(err)
			}
		}
	})
	data, _ := Marshal(v)
	b.Run("unmarshal", func(b *testing.B) {
		for b.Loop() {
			if err := Unmarshal(data, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}
