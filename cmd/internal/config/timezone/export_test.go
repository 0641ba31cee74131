package timezone

// Named, Names and NameOf export the functions that determine the name of the zone.
var (
	Named  = named
	Names  = names
	NameOf = nameOf
)
