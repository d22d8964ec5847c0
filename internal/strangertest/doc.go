// Package strangertest is another user of this computer, for tests: one that has no
// rights here but those of every user.
package strangertest
