// Package pooltag writes the owner of a machine, key, network or volume into a cloud, and reads
// it again: pool, node, rank, owner, lease, times and host key.
//
// A [Tag] is the content. Data describe how a cloud holds it: a [Form] has the keys, the form
// of times and the limits of a cloud with pairs, a [LineForm] those of a cloud with one line of
// text for each thing. [Tag.LongName] and [FromName] are for clouds with nothing but a name.
//
// Programs of other versions find their machines by these bytes, so they must not change: each
// provider has a test that compares them with its testdata/golden.
package pooltag
