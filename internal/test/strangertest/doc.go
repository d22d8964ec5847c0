// Package strangertest runs processes as another user of this computer, for tests. This user has no special rights.
package strangertest
