// Package fakecloud is the kit from which tests make fakes of clouds' APIs.
package fakecloud
