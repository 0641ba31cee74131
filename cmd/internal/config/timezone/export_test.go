package timezone

// Named and Names export the functions that determine the name of the zone.
var (
	Named = named
	Names = names
)
