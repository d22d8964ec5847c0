package all_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/gputrain/gputrain/providers/all"
)

func Example() {
	file := `{"provider": "vastai", "settings": {"min_reliability": 0.99, "geolocation": ["EU"]}}`
	var config struct {
		Provider string
		Settings map[string]any
	}
	if err := json.Unmarshal([]byte(file), &config); err != nil {
		log.Fatal(err)
	}
	provider, err := all.New(config.Provider, config.Settings)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(provider.Name())

	_, err = all.New("vastai", map[string]any{"Geolokation": "EU"})
	fmt.Println(err != nil)
	// Output:
	// vastai
	// true
}
