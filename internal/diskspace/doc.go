// Package diskspace tells how much space a file system has.
package diskspace
