//go:build !unix

package atomicfiles

import "os"

// keepOwner does nothing: files belong to their creator.
func keepOwner(*os.File, string) error { return nil }
