cp b.png edited.png
