package all_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/gputrain/gputrain"
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

// A file has two accounts of one cloud, and this computer's own machine. The program chooses one
// by its name, or all of them for one pool.
func ExampleAccounts() {
	file := `{
		"work": {"provider": "vastai", "api_key": "env://VAST_WORK", "min_reliability": 0.99},
		"own":  {"provider": "vastai", "api_key": "env://VAST_OWN"},
		"here": {"provider": "local"}
	}`
	var settings map[string]map[string]any
	if err := json.Unmarshal([]byte(file), &settings); err != nil {
		log.Fatal(err)
	}
	accounts, err := all.Accounts(settings)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(accounts.Names())
	provider, err := accounts.Provider("here")
	if err != nil {
		log.Fatal(err)
	}
	pool, err := gputrain.Open(context.Background(), provider, gputrain.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	result, err := pool.Run(gputrain.Cmd("echo", "hello"))
	fmt.Printf("%s%v\n", result.Stdout, err)

	_, err = all.Accounts(map[string]map[string]any{"work": {"provider": "vast"}, "own": {"provider": "runpod", "Colour": "red"}})
	fmt.Println(err != nil) // it names both mistakes
	// Output:
	// [here own work]
	// hello
	// <nil>
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
