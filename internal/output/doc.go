// Package output handles the output of tasks: it shows lines under a prefix, keeps them in memory and on disk within
// bounds, and removes known secrets. It also delivers events to a function that may be slow.
//
// A [Printer] writes the [Lines] of all tasks to the user's writers. A [Spool] keeps one stream of one attempt, in the
// memory and the folder of [Results]; a [Playback] reads the streams of all attempts. A [Redactor] knows the secrets.
// [Events] queues events, so that emitting one never blocks.
package output
