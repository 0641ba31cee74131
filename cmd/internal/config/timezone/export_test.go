package timezone

// Named and Names find the name of the machine's zone.
var (
	Named = named
	Names = names
)
