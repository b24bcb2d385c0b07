/** The objects of the API, with the names of its JSON. New fields may be added to all of them. */
export {};
