package yamlconf

// Distance and Expand are what they are inside.
var (
	Distance = distance
	Expand   = expand
)
