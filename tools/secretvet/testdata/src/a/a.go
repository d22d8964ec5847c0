// Package a has what secretvet reports. Each type's comment says what fmt prints.
package a

import (
	"fmt"

	"github.com/gputrain/gputrain"
)

// Config prints as it should.
type Config struct {
	APIKey gputrain.Secret
	Names  []string
}

type alias = gputrain.Secret

type Secret string // another package's word

// InClear prints every secret in it.
type InClear struct {
	key       gputrain.Secret             // want `unexported field key holds a gputrain.Secret \(key itself\)`
	cfg       Config                      // want `unexported field cfg holds a gputrain.Secret \(cfg.APIKey\)`
	one, two  []gputrain.Secret           // want `field one holds` `field two holds a gputrain.Secret \(two\[\]\)`
	byName    map[string]gputrain.Secret  // want `byName\[\]`
	byKey     map[gputrain.Secret]int     // want `byKey\[key\]`
	fixed     [2]Config                   // want `fixed\[\].APIKey`
	other     alias                       // want `field other holds`
	anonymous struct{ K gputrain.Secret } // want `anonymous.K`
	list      generic[gputrain.Secret]    // want `list.value`
	recursive node                        // want `recursive.Key`
}

type generic[T any] struct{ value T }

type node struct {
	Children []node
	Key      gputrain.Secret
}

// Redacted prints none.
type Redacted struct {
	APIKey  gputrain.Secret
	Config  Config
	pointer *Config
	sign    func() gputrain.Secret
	pipe    chan gputrain.Secret
	name    string
	mine    Secret
	number  generic[int]
	embedded
	_ gputrain.Secret

	//secretvet:ignore it is emptied by the constructor
	emptied Config
	kept    Config //secretvet:ignore it is emptied by the constructor
	//secretvet:ignore
	unsaid Config // want `unsaid.APIKey`
}

// Embeds has the Format method of what it embeds.
type Embeds struct {
	alias
	key gputrain.Secret
}

type embedded struct{ Key gputrain.Secret }

// Printer prints itself.
type Printer struct{ key gputrain.Secret }

func (Printer) Format(w fmt.State, _ rune) { fmt.Fprint(w, "a printer") }

// Stringer is not asked by %#v.
type Stringer struct {
	key gputrain.Secret // want `field key holds`
}

func (Stringer) String() string { return "a stringer" }

func local() {
	var v struct{ key gputrain.Secret } // want `field key holds`
	fmt.Println(v)
}
