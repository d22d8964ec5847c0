package all_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/guardian"
	"github.com/gputrain/gputrain/providers/all"
	"github.com/gputrain/gputrain/providers/driver"
)

// Another process of the program reads every Config as it is, credentials included, if it is data alone.
func TestEveryConfigReachesAGuardian(t *testing.T) {
	for _, name := range all.Names() {
		zero, err := all.New(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(v)
		for _, p := range []driver.Provider{zero, v.Interface().(driver.Provider)} {
			c, err := guardian.Encode(p)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, err := c.Decode(); err != nil || !reflect.DeepEqual(got, p) {
				t.Errorf("%s: %+v arrives as %+v, %v", name, p, got, err)
			}
		}
		if client := v.FieldByName("HTTPClient"); client.IsValid() {
			client.Set(reflect.ValueOf(&http.Client{}))
			if _, err := guardian.Encode(v.Interface().(driver.Provider)); err == nil || !strings.Contains(err.Error(), "Config.HTTPClient is a *http.Client") {
				t.Errorf("%s with an HTTPClient: %v", name, err)
			}
		}
	}
}

var filled int

// fill sets all of a value that is data to something that occurs once.
func fill(v reflect.Value) {
	filled++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(filled))
	case reflect.Float64:
		v.SetFloat(float64(filled) + 0.1)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", filled))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}
