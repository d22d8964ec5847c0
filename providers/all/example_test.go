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

// A settings file that this computer's user wrote may name commands.
func ExampleAllowCommands() {
	settings := map[string]any{"api_key": "cmd://op read op://cloud/vast/key"}
	_, err := all.New("vastai", settings)
	fmt.Println(err)
	_, err = all.New("vastai", settings, all.AllowCommands())
	fmt.Println(err)
	// Output:
	// vastai: configure: invalid: APIKey begins with cmd://, which this computer runs as a command; if the settings are trusted to run programs here, give New all.AllowCommands()
	// <nil>
}
